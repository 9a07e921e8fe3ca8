//! The ports, addresses and link name of one cluster: a slot is a number from which all of them follow; two slots share
//! none. Pure, except for `Slot::free`, which asks the machine. Called by `cluster` and by the parts.
//!
//! A slot `s` owns the ports `18000 + 16 s ..` on loopback and the addresses `10.(200 + s).0.0/16`:
//!
//! | addresses | for |
//! |---|---|
//! | `.0.0/30` | the link between host (`.0.1`) and node (`.0.2`) |
//! | `.64.0/18` | pods |
//! | `.128.0/20` | Services; `.128.1` the API server, `.128.10` DNS |

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// How many clusters one machine can hold at once.
pub const SLOTS: u8 = 32;

/// One of the [`SLOTS`] places for a cluster on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(u8);

/// A port that a program of the cluster listens on. The node's programs have a network of their own and so their
/// usual ports.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "each is the port of the program that it names")]
pub enum Port {
    ApiServer,
    EtcdClient,
    EtcdPeer,
    ControllerManager,
    Scheduler,
}

impl Slot {
    /// All slots, starting with one that depends on the cluster's name, so that a cluster tends to find the same
    /// ports again.
    pub fn candidates(name: &str) -> impl Iterator<Item = Self> {
        let first = name.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte)) % SLOTS;
        (0..SLOTS).map(move |step| Self((first + step) % SLOTS))
    }

    /// The number of a port.
    pub fn port(self, port: Port) -> u16 {
        18_000 + 16 * u16::from(self.0) + port as u16
    }

    fn address(self, third: u8, fourth: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 200 + self.0, third, fourth)
    }

    /// The host's end of the link to the node.
    pub fn host(self) -> Ipv4Addr {
        self.address(0, 1)
    }

    /// The node's end of the link.
    pub fn node(self) -> Ipv4Addr {
        self.address(0, 2)
    }

    /// Everything that is this slot's, as a network.
    fn all(self) -> String {
        format!("{}/16", self.address(0, 0))
    }

    /// The pods' network.
    pub fn pods(self) -> String {
        format!("{}/18", self.address(64, 0))
    }

    /// The part of it that the node gives its pods: the first /24, as the controller-manager assigns it too.
    pub fn node_pods(self) -> String {
        format!("{}/24", self.address(64, 0))
    }

    /// The Services' network.
    pub fn services(self) -> String {
        format!("{}/20", self.address(128, 0))
    }

    /// The Service `kubernetes`: the first address of the Services' network, by Kubernetes' own rule.
    pub fn api_service(self) -> Ipv4Addr {
        self.address(128, 1)
    }

    /// The Service `kube-dns`.
    pub fn dns_service(self) -> Ipv4Addr {
        self.address(128, 10)
    }

    /// The name of the link's end on the host. Linux allows 15 characters.
    pub fn link(self) -> String {
        format!("mcde2e{}", self.0)
    }

    /// The name of the link's other end, until it is in the node and called eth0.
    pub fn peer(self) -> String {
        format!("mcde2e{}n", self.0)
    }

    /// The control group that the node's pods live in.
    pub fn cgroup(self) -> String {
        self.link()
    }

    /// Whether nothing on this machine uses the slot's ports, link or addresses, whoever started it. The look itself uses
    /// the ports for a moment, so that two looks at once see each other: [`crate::free_slot`] is how to look.
    pub fn free(self) -> bool {
        let ports =
            [Port::ApiServer, Port::EtcdClient, Port::EtcdPeer, Port::ControllerManager, Port::Scheduler];
        ports
            .into_iter()
            .all(|port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port(port)))).is_ok())
            && fs::symlink_metadata(Path::new("/sys/class/net").join(self.link())).is_err()
            && self.unrouted()
    }

    /// No route of the host leads to, or into, the slot's addresses. Without `ip` there is no node either.
    fn unrouted(self) -> bool {
        Command::new("ip")
            .args(["-4", "route", "show", "root", &self.all()])
            .output()
            .map_or(true, |output| output.stdout.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_can_reach_every_slot() {
        for name in ["demo", "e2e", ""] {
            let slots: BTreeSet<u8> = Slot::candidates(name).map(|slot| slot.0).collect();
            assert_eq!(slots, (0..SLOTS).collect());
        }
    }

    #[test]
    fn two_slots_share_no_port_no_address_and_no_link() {
        let ports: BTreeSet<u16> = Slot::candidates("")
            .flat_map(|slot| [slot.port(Port::ApiServer), slot.port(Port::Scheduler)])
            .collect();
        assert_eq!(ports.len(), 2 * usize::from(SLOTS));
        let names: BTreeSet<String> =
            Slot::candidates("").flat_map(|slot| [slot.all(), slot.link(), slot.peer()]).collect();
        assert_eq!(names.len(), 3 * usize::from(SLOTS));
    }
}
