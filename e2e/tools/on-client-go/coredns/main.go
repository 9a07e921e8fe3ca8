// coredns is the DNS server of CoreDNS with the plugins that the local cluster's configuration names, and no other.
//
// All of its plugins would bring the clients of every large cloud, which take most of the time of a build. The
// configuration is written by e2e/src/node_files.rs; its only caller is e2e/src/node.rs.
package main

import (
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	coremain.Run()
}
