//! Which URLs and addresses are public: `https` on port 443, at addresses of the public internet.
//!
//! A server that connects to hosts that callers name must not become a way into its own network. So the connecting code
//! resolves the name, checks every address, and connects to a checked address only. A redirect is checked like a first
//! URL, or not followed. Addresses that embed IPv4 ones (mapped, NAT64, 6to4, Teredo) are refused as a whole: no public
//! server needs them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Url;

/// Checks the form of `url`, and its address if it has one. The addresses of a host name are checked when it is
/// resolved.
///
/// # Errors
/// Its fault, in words that follow the name of the URL: "must begin with `https://`".
pub fn check_url(url: &Url) -> Result<(), &'static str> {
    if url.scheme() != "https" {
        return Err("must begin with `https://`");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("may not contain a user name or password");
    }
    if url.port_or_known_default() != Some(443) {
        return Err("may not name a port other than 443");
    }
    let host = url.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match literal {
        Ok(address) if !is_public(address) => Err("names an address that is not public"),
        Ok(_) => Ok(()),
        Err(_) if host.is_empty() => Err("names no host"),
        Err(_) => Ok(()),
    }
}

/// Whether `address` is on the public internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !NOT_PUBLIC_V4.iter().any(|block| block.holds(v4)),
        IpAddr::V6(v6) => GLOBAL_V6.holds(v6) && !NOT_PUBLIC_V6.iter().any(|block| block.holds(v6)),
    }
}

struct BlockV4(Ipv4Addr, u32);

impl BlockV4 {
    fn holds(&self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - self.1).unwrap_or(0);
        (address.to_bits() ^ self.0.to_bits()) & mask == 0
    }
}

struct BlockV6(Ipv6Addr, u32);

impl BlockV6 {
    fn holds(&self, address: Ipv6Addr) -> bool {
        let mask = u128::MAX.checked_shl(128 - self.1).unwrap_or(0);
        (address.to_bits() ^ self.0.to_bits()) & mask == 0
    }
}

/// The special-purpose blocks of the IANA registry, and one address at which a cloud answers inside its network.
const NOT_PUBLIC_V4: [BlockV4; 17] = [
    BlockV4(Ipv4Addr::new(0, 0, 0, 0), 8),        // this network
    BlockV4(Ipv4Addr::new(10, 0, 0, 0), 8),       // private
    BlockV4(Ipv4Addr::new(100, 64, 0, 0), 10),    // carrier-grade NAT
    BlockV4(Ipv4Addr::new(127, 0, 0, 0), 8),      // loopback
    BlockV4(Ipv4Addr::new(168, 63, 129, 16), 32), // a cloud's platform services
    BlockV4(Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local, with the metadata services
    BlockV4(Ipv4Addr::new(172, 16, 0, 0), 12),    // private
    BlockV4(Ipv4Addr::new(192, 0, 0, 0), 24),     // protocol assignments
    BlockV4(Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation
    BlockV4(Ipv4Addr::new(192, 31, 196, 0), 24),  // AS112
    BlockV4(Ipv4Addr::new(192, 88, 99, 0), 24),   // 6to4 relays
    BlockV4(Ipv4Addr::new(192, 168, 0, 0), 16),   // private
    BlockV4(Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarks
    BlockV4(Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation
    BlockV4(Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation
    BlockV4(Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    BlockV4(Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, broadcast
];

/// Everything that is assigned as global unicast. Outside are loopback, unspecified, mapped and NAT64 (`64:ff9b::/96`,
/// `64:ff9b:1::/48`) addresses, unique local, link-local and multicast ones.
const GLOBAL_V6: BlockV6 = BlockV6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

const NOT_PUBLIC_V6: [BlockV6; 5] = [
    BlockV6(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, with Teredo and ORCHID
    BlockV6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    BlockV6(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    BlockV6(Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112
    BlockV6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

#[cfg(test)]
mod tests {
    use super::*;

    fn public(address: &str) -> bool {
        is_public(address.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in ["1.1.1.1", "8.8.8.8", "100.128.0.1", "172.32.0.1", "192.167.255.255", "198.20.0.1"] {
            assert!(public(address), "{address}");
        }
        for address in ["2606:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "2003::1"] {
            assert!(public(address), "{address}");
        }
    }

    #[test]
    fn every_address_that_is_not_public_is_refused() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a00:1",
            "100::1",
            "2001::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!public(address), "{address}");
        }
    }
}
