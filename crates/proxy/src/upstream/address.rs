//! Check of a server's addresses.

use std::net::IpAddr;

use sandbox_policy::network::{AddressClass, class};

use super::Target;

/// Returns true when a target may be reached at this address. A host named by the user may be in a private network.
/// Metadata services can only be reached by an address that the user wrote in full.
pub(super) fn allowed(target: &Target, address: IpAddr) -> bool {
    if target.named && target.address() == Some(address) {
        return true;
    }
    match class(address) {
        AddressClass::Public => true,
        AddressClass::Private | AddressClass::Loopback => target.named,
        AddressClass::LinkLocal | AddressClass::Metadata | AddressClass::Special => false,
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
    fn address_is_allowed_when_the_user_wrote_it() {
        let target = Target::named("http://169.254.169.254").unwrap();
        assert!(allowed(&target, "169.254.169.254".parse().unwrap()));
        assert!(!allowed(&target, "169.254.169.253".parse().unwrap()));
        let provider = Target::public("http://127.0.0.1").unwrap();
        assert!(!allowed(&provider, "127.0.0.1".parse().unwrap()));
    }
}
