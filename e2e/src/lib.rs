//! A real Kubernetes on one Linux machine, without containers' engines, registries or virtual machines.
//!
//! ```text
//! paths      where things are kept
//! lock       a folder that one process at a time works in
//! programs   go.mod files ─▶ binaries in the user's cache folder, by content
//! packages   what the node needs of the system: found, or installed with apt-get
//! slot       a small number ─▶ ports, addresses and link name of one cluster, so that two do not meet
//! process    programs in the background: started, recognised, killed
//! options    what a cluster can be like
//! record     what a cluster has on this machine, written to disk before it is made
//! free_slot  a slot that nothing uses
//! certs      the cluster's own CA, its certificates and kubeconfigs
//! busy_files etcd's data and the audit log, in memory where there is room
//! kubeconfig a client's configuration from a kubeconfig
//! boot       one start of a cluster, step by step
//! control_plane, node, node_files, network, cgroups, image      the parts
//! test_times how long each test takes, and waits for what
//! cluster    up, find, down: the parts put together
//! remover    removes a cluster when the program ends that it belongs to
//! chart      helm, and the chart as it renders
//! cargo      the program cargo, in this repository
//! shipped    the operator's static binary, its image and what is in it
//! demo       `make demo`: a cache in a minute, told to a newcomer
//! bench      what the operator costs, measured against a bare client
//! stopgo     leaders that stand still, many times under load
//! testing    what the tests use: clients, namespaces, deadlines, audit log, memcached, the operator
//! ```
//!
//! Called by the `e2e` binary (`make demo`) and by the tests in `e2e/tests`. All of it is IO.
#![expect(
    clippy::disallowed_methods,
    reason = "this crate is the outside world of the operator: it reads the clock and the environment"
)]

pub mod bench;
mod boot;
mod busy_files;
mod cargo;
pub mod certs;
pub mod cgroups;
pub mod chart;
pub mod cluster;
mod control_plane;
pub mod demo;
mod free_slot;
pub mod image;
mod kubeconfig;
pub mod lock;
mod network;
mod node;
mod node_files;
mod options;
pub mod packages;
pub mod paths;
pub mod process;
pub mod programs;
mod record;
mod remover;
pub mod shipped;
pub mod slot;
pub mod stopgo;
mod test_times;
pub mod testing;

pub use cluster::{Audit, Cleanup, Cluster, KubeletSync, Options, Owners, Shape, TemporaryCluster, down};
