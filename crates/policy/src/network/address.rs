//! Classes of IP addresses. The owner of a name decides which address it resolves to: that of this machine, of its local
//! network, or of a cloud's metadata service, which hands out credentials.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressClass {
    /// A public address on the internet.
    Public,
    /// An address of a private network.
    Private,
    /// An address of this machine.
    Loopback,
    /// An address of the local link.
    LinkLocal,
    /// An address of a cloud's metadata service, which hands out credentials.
    Metadata,
    /// An address that no host has: multicast, documentation, reserved.
    Special,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Private => "a private network address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata address",
            Self::Special => "a reserved address",
        })
    }
}

/// Addresses of cloud metadata services. AWS, Azure, Google and others share the first.
const METADATA_V4: [Ipv4Addr; 5] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
];
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254),
    Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254),
];

/// Returns the class of an address. An IPv6 address with an embedded IPv4 address has the class of the IPv4 address.
pub fn class(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => embedded(address).map_or_else(|| v6(address), v4),
    }
}

fn v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, _] = address.octets();
    match (a, b) {
        _ if METADATA_V4.contains(&address) => AddressClass::Metadata,
        (127, _) => AddressClass::Loopback,
        (10, _) | (192, 168) | (172, 16..=31) | (100, 64..=127) => AddressClass::Private,
        (169, 254) => AddressClass::LinkLocal,
        // `connect(2)` to `0.0.0.0` reaches this machine, although no host has the address.
        (0 | 224..=255, _) | (198, 18 | 19) => AddressClass::Special,
        (192, 0) if c == 0 || c == 2 => AddressClass::Special,
        (198, 51) if c == 100 => AddressClass::Special,
        (203, 0) if c == 113 => AddressClass::Special,
        _ => AddressClass::Public,
    }
}

fn v6(address: Ipv6Addr) -> AddressClass {
    let first = address.segments()[0];
    match first {
        _ if METADATA_V6.contains(&address) => AddressClass::Metadata,
        _ if address.is_loopback() => AddressClass::Loopback,
        0xfc00..=0xfdff | 0xfec0..=0xfeff => AddressClass::Private,
        0xfe80..=0xfebf => AddressClass::LinkLocal,
        // Documentation, and Teredo tunnels, whose end is unknown.
        0x2001 if matches!(address.segments()[1], 0 | 0x0db8) => AddressClass::Special,
        0x2000..=0x3fff => AddressClass::Public,
        _ => AddressClass::Special,
    }
}

/// Returns the IPv4 address that a gateway would forward to: NAT64, 6to4 and IPv4-compatible addresses.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let part = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low]
            if !address.is_loopback() && !address.is_unspecified() =>
        {
            Some(part(high, low))
        }
        [0x2002, high, low, ..] => Some(part(high, low)),
        _ => None,
    }
}
