//! Which addresses a server may have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Target;

/// How far an address reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The internet.
    Public,
    /// This machine, or the network around it.
    Private,
    /// Where clouds keep credentials, or nowhere that a server is.
    Forbidden,
}

/// Whether a target may be reached at this address. A name that the user chose may lead into a private
/// network; to a metadata service only an address does that the user wrote out.
pub(super) fn allowed(target: &Target, address: IpAddr) -> bool {
    if target.named && target.address() == Some(address) {
        return true;
    }
    match reach(address) {
        Reach::Public => true,
        Reach::Private => target.named,
        Reach::Forbidden => false,
    }
}

fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let [a, b, c, d] = address.octets();
    match (a, b, c, d) {
        // Link-local, which is where metadata services are; and the two that are elsewhere.
        (169, 254, ..) | (100, 100, 100, 200) | (168, 63, 129, 16) | (192, 0, 0, 192) => {
            Reach::Forbidden
        }
        (10 | 127, ..) | (172, 16..=31, ..) | (192, 168, ..) | (100, 64..=127, ..) => {
            Reach::Private
        }
        // "This network", protocol assignments, documentation, benchmarks, multicast, reserved.
        (0 | 224.., ..)
        | (192, 0, 0 | 2, _)
        | (198, 18 | 19, ..)
        | (198, 51, 100, _)
        | (203, 0, 113, _) => Reach::Forbidden,
        _ => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    if let Some(inner) = embedded(address) {
        return reach_v4(inner);
    }
    let segments = address.segments();
    match segments[0] {
        _ if address.is_loopback() => Reach::Private,
        // Amazon's metadata service.
        0xfd00 if segments[1] == 0x0ec2 => Reach::Forbidden,
        0xfc00..=0xfdff => Reach::Private,
        0x2001 if segments[1] == 0x0db8 || segments[1] == 0 => Reach::Forbidden,
        0x2000..=0x3fff => Reach::Public,
        _ => Reach::Forbidden,
    }
}

/// The IPv4 address inside: mapped, compatible, NAT64 or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(v4(high, low))
        }
        [0, 0, 0, 0, 0, 0, high, low] if !address.is_loopback() => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_refused_unless_it_is_public_or_named() {
        let own = Target::public("https://api.example.com").unwrap();
        let name = Target::named("https://gateway.corp").unwrap();
        for (address, of_provider, of_named) in [
            ("93.184.216.34", true, true),
            ("2606:2800:220:1::1", true, true),
            ("127.0.0.1", false, true),
            ("::1", false, true),
            ("10.1.2.3", false, true),
            ("172.31.0.1", false, true),
            ("172.32.0.1", true, true),
            ("192.168.0.1", false, true),
            ("100.64.0.1", false, true),
            ("fd12::1", false, true),
            ("::ffff:10.0.0.1", false, true),
            ("64:ff9b::7f00:1", false, true),
            ("2002:7f00:1::", false, true),
            ("169.254.169.254", false, false),
            ("::ffff:169.254.169.254", false, false),
            ("fd00:ec2::254", false, false),
            ("fe80::1", false, false),
            ("100.100.100.200", false, false),
            ("168.63.129.16", false, false),
            ("0.0.0.0", false, false),
            ("::", false, false),
            ("224.0.0.1", false, false),
            ("ff02::1", false, false),
        ] {
            let parsed: IpAddr = address.parse().unwrap();
            assert_eq!(
                (allowed(&own, parsed), allowed(&name, parsed)),
                (of_provider, of_named),
                "{address}"
            );
        }
    }

    #[test]
    fn an_address_that_was_written_out_is_meant() {
        let target = Target::named("http://169.254.169.254").unwrap();
        assert!(allowed(&target, "169.254.169.254".parse().unwrap()));
        assert!(!allowed(&target, "169.254.169.253".parse().unwrap()));
        let provider = Target::public("http://127.0.0.1").unwrap();
        assert!(!allowed(&provider, "127.0.0.1".parse().unwrap()));
    }
}
