//! For which servers the proxy of the environment is not, as kubectl reads `NO_PROXY`: the rules of Go, which are not those of
//! curl.
//!
//! Takes the address of the API server and the value of the variable. No IO; `client` calls it.

use std::net::IpAddr;

use http::Uri;

/// Whether a server is asked without the proxy of the environment: one that `no_proxy` names, or one on loopback.
#[must_use]
pub fn is_excepted(server: &Uri, no_proxy: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_lowercase();
    let default = if server.scheme_str() == Some("http") { 80 } else { 443 };
    let port = server.port_u16().unwrap_or(default).to_string();
    let address = address(&host);
    if host == "localhost" || address.is_some_and(|it| it.is_loopback()) {
        return true;
    }
    let no_proxy = no_proxy.to_lowercase();
    let mut entries = no_proxy.split(',').map(str::trim);
    entries.any(|entry| entry == "*" || is_named(&host, address, &port, entry))
}

/// Whether an entry, which is not `*`, names this server.
fn is_named(host: &str, address: Option<IpAddr>, port: &str, entry: &str) -> bool {
    if let Some((network, length)) = network(entry) {
        return address.is_some_and(|it| has_prefix(it, network, length));
    }
    let (named, of_port) = host_and_port(entry);
    let is_host = match (self::address(named), address) {
        (Some(named), address) => address == Some(named),
        // The end of an address is no domain.
        (None, Some(_)) => false,
        (None, None) => is_of_domain(host, named),
    };
    is_host && (of_port.is_empty() || of_port == port)
}

/// Of `.domain` and `*.domain` only what is below it, of `domain` also the domain itself.
fn is_of_domain(host: &str, named: &str) -> bool {
    let named = named.strip_prefix('*').filter(|it| it.starts_with('.')).unwrap_or(named);
    let domain = named.strip_prefix('.').unwrap_or(named);
    match host.strip_suffix(domain) {
        _ if named.is_empty() => false,
        Some("") => domain == named,
        Some(below) => below.ends_with('.'),
        None => false,
    }
}

/// Both parts of an entry. An address of IPv6 has brackets only before a port.
fn host_and_port(entry: &str) -> (&str, &str) {
    let Some((host, port)) = entry.rsplit_once(':') else { return (entry, "") };
    match host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(host) => (host, port),
        None if host.contains(':') => (entry, ""),
        None => (host, port),
    }
}

/// One of IPv4 that is written as one of IPv6 is the same.
fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|it: IpAddr| it.to_canonical())
}

fn network(entry: &str) -> Option<(IpAddr, u32)> {
    let (network, length) = entry.split_once('/')?;
    let network: IpAddr = network.parse().ok()?;
    let longest = if network.is_ipv4() { 32 } else { 128 };
    let length = length.parse::<u32>().ok().filter(|length| *length <= longest)?;
    Some((network, length))
}

/// Whether both begin with the same bits, so many of them.
fn has_prefix(address: IpAddr, network: IpAddr, length: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (address.to_bits() ^ network.to_bits()).leading_zeros() >= length
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            (address.to_bits() ^ network.to_bits()).leading_zeros() >= length
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing("", "https://10.0.0.1:6443", false)]
    #[case::everything("other, *", "https://10.0.0.1:6443", true)]
    #[case::loopback("", "https://127.0.0.2:6443", true)]
    #[case::loopback_of_ipv6("", "https://[::1]:6443", true)]
    #[case::localhost("", "https://localhost:6443", true)]
    #[case::the_address("other, 10.0.0.1", "https://10.0.0.1:6443", true)]
    #[case::another_address("10.0.0.2", "https://10.0.0.1:6443", false)]
    #[case::the_end_of_an_address(".0.1,0.1", "https://10.0.0.1:6443", false)]
    #[case::its_port("10.0.0.1:6443", "https://10.0.0.1:6443", true)]
    #[case::another_port("10.0.0.1:443", "https://10.0.0.1:6443", false)]
    #[case::the_usual_port("10.0.0.1:443", "https://10.0.0.1", true)]
    #[case::the_usual_port_of_http("10.0.0.1:80", "http://10.0.0.1", true)]
    #[case::an_address_of_ipv6("fd00::1", "https://[fd00::1]:6443", true)]
    #[case::an_address_of_ipv6_written_otherwise("FD00:0::1", "https://[fd00::1]:6443", true)]
    #[case::an_address_of_ipv6_with_its_port("[fd00::1]:6443", "https://[fd00::1]:6443", true)]
    #[case::an_address_of_ipv6_with_another_port("[fd00::1]:443", "https://[fd00::1]:6443", false)]
    #[case::a_network("10.0.0.0/8", "https://10.200.0.1:6443", true)]
    #[case::a_network_by_any_of_its_addresses("10.1.2.3/8", "https://10.200.0.1:6443", true)]
    #[case::another_network("10.0.0.0/9", "https://10.200.0.1:6443", false)]
    #[case::every_address("0.0.0.0/0", "https://10.0.0.1:6443", true)]
    #[case::a_network_of_ipv6("fd00::/8", "https://[fdab::1]:6443", true)]
    #[case::a_network_of_the_other_kind("::/0", "https://10.0.0.1:6443", false)]
    #[case::no_network("10.0.0.0/33", "https://10.0.0.1:6443", false)]
    #[case::a_domain("corp.example", "https://corp.example:6443", true)]
    #[case::in_capitals("Corp.Example", "https://API.corp.example", true)]
    #[case::below_a_domain("corp.example", "https://api.corp.example:6443", true)]
    #[case::a_longer_name("corp.example", "https://mycorp.example:6443", false)]
    #[case::only_below_a_domain(".corp.example", "https://a.api.corp.example:6443", true)]
    #[case::not_the_domain_itself(".corp.example", "https://corp.example:6443", false)]
    #[case::every_name_below("*.corp.example", "https://api.corp.example:6443", true)]
    #[case::every_name_but_the_domain("*.corp.example", "https://corp.example:6443", false)]
    #[case::a_star_elsewhere("api.*,*corp.example", "https://api.corp.example:6443", false)]
    #[case::a_domain_and_its_port("corp.example:6443", "https://api.corp.example:6443", true)]
    #[case::a_domain_and_another_port("corp.example:443", "https://api.corp.example:6443", false)]
    #[case::a_port_alone(":6443", "https://api.corp.example:6443", false)]
    fn a_server_is_excepted_as_go_excepts_it(
        #[case] no_proxy: &str,
        #[case] server: &str,
        #[case] excepted: bool,
    ) {
        assert_eq!(is_excepted(&server.parse().unwrap(), no_proxy), excepted);
    }
}
