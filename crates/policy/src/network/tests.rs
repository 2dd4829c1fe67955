use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::catalog::{host_preset, host_presets};

fn pattern(text: &str) -> HostPattern {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn policy(allowed: &[&str], denied: &[&str]) -> EgressPolicy {
    let rules = |texts: &[&str]| {
        texts.iter().map(|text| HostRule::new(pattern(text), "here")).collect::<Vec<_>>()
    };
    EgressPolicy { allowed: rules(allowed), denied: rules(denied), upload_limit: None }
}

fn allows(policy: &EgressPolicy, asked: &str) -> bool {
    policy.check(&asked.parse().unwrap()).is_ok()
}

#[test]
fn host_is_rejected_when_programs_could_read_it_differently() {
    use HostError::{
        Character, Empty, Ipv6, Label, NotAscii, OddAddress, TooLong, TrailingDot, UserInfo,
    };
    let long = ["a".repeat(63).as_str(); 4].join(".");
    for (text, problem) in [
        ("", Empty),
        ("a.com\0.evil.io", Character),
        ("a.com\r\nHost: evil.io", Character),
        ("a.com\n", Character),
        ("a com", Character),
        ("a.com/x", Character),
        ("a.com%2eevil.io", Character),
        ("a.com#", Character),
        ("a.com\\x", Character),
        ("a.com:80", Character),
        ("user@a.com", UserInfo),
        ("a.com:x@evil.io", UserInfo),
        ("a.com.", TrailingDot),
        (".", TrailingDot),
        ("exаmple.com", NotAscii),
        ("bücher.de", NotAscii),
        ("a。com", NotAscii),
        ("a..com", Label),
        (".a.com", Label),
        ("-a.com", Label),
        ("a-.com", Label),
        (&format!("{}.com", "a".repeat(64)), Label),
        (&long, TooLong),
        ("2130706433", OddAddress),
        ("0x7f000001", OddAddress),
        ("0x7f.0.0.1", OddAddress),
        ("0177.0.0.1", OddAddress),
        ("127.1", OddAddress),
        ("127.0.0.1.1", OddAddress),
        ("256.0.0.1", OddAddress),
        ("a.0x1", OddAddress),
        ("a.1", OddAddress),
        ("[::1", Ipv6),
        ("[127.0.0.1]", Ipv6),
        ("[fe80::1%eth0]", Ipv6),
        ("[::1]x", Ipv6),
        ("fe80::1%25eth0", Character),
    ] {
        assert_eq!(text.parse::<HostName>(), Err(problem), "{text:?}");
    }
}

#[test]
fn host_has_one_spelling() {
    for (text, shown) in [
        ("API.GitHub.com", "api.github.com"),
        ("xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("my_bucket.s3.amazonaws.com", "my_bucket.s3.amazonaws.com"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("::1", "[::1]"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("::ffff:7f00:1", "127.0.0.1"),
    ] {
        let host: HostName = text.parse().unwrap();
        assert_eq!(host.to_string(), shown, "{text}");
        assert_eq!(shown.parse(), Ok(host), "{text}");
    }
}

#[test]
fn port_is_plain_digits() {
    for (text, port) in [("a.com:443", 443), ("[::1]:80", 80), ("10.0.0.1:65535", 65535)] {
        assert_eq!(text.parse::<HostPort>().map(|asked| asked.port), Ok(port), "{text}");
    }
    for text in
        ["a.com", "a.com:", "a.com:0", "a.com:+1", "a.com: 1", "a.com:080", "a.com:65536", "::1:80"]
    {
        assert!(text.parse::<HostPort>().is_err(), "{text}");
    }
    assert_eq!(HostPort::with_default("a.com", 80).unwrap().to_string(), "a.com:80");
    assert_eq!(HostPort::with_default("[::1]", 443).unwrap().to_string(), "[::1]:443");
}

#[test]
fn pattern_matches_label_by_label() {
    for (text, asked, expected) in [
        ("a.com", "a.com:443", true),
        ("a.com", "A.COM:80", true),
        ("a.com", "b.a.com:443", false),
        ("a.com", "evila.com:443", false),
        ("a.com", "a.com.evil.io:443", false),
        ("*.a.com", "b.a.com:443", true),
        ("*.a.com", "c.b.a.com:443", true),
        ("*.a.com", "a.com:443", false),
        ("*.a.com", "evila.com:443", false),
        ("*.a.com", "b.a.com.evil.io:443", false),
        ("a.com:443", "a.com:443", true),
        ("a.com:443", "a.com:80", false),
        ("*.a.com:8443", "b.a.com:8443", true),
        ("127.0.0.1", "127.0.0.1:1", true),
        ("127.0.0.1", "[::ffff:127.0.0.1]:1", true),
        ("[::1]:80", "[::1]:80", true),
        ("::1", "[::1]:80", true),
    ] {
        assert_eq!(pattern(text).matches(&asked.parse().unwrap()), expected, "{text} {asked}");
        assert_eq!(pattern(&pattern(text).to_string()), pattern(text), "{text}");
    }
}

#[test]
fn n13_pattern_is_refused_when_it_is_too_broad() {
    for text in [
        "*",
        "*:443",
        "*.com",
        "*.co.uk",
        "*.github.io",
        "*.internal",
        "*.com:443",
        "*.s3.amazonaws.com",
    ] {
        assert!(matches!(text.parse::<HostPattern>(), Err(PatternError::TooBroad(_))), "{text}");
    }
    for text in ["a*.com", "*a.com", "a.*.com", "**.a.com", "*.*.a.com", "*.127.0.0.1", "*.[::1]"] {
        assert!(text.parse::<HostPattern>().is_err(), "{text}");
    }
    for text in ["*.example.com", "*.me.github.io", "*.corp.internal", "com", "localhost"] {
        pattern(text);
    }
}

#[test]
fn pattern_covers_every_host_that_it_matches() {
    for (wide, narrow, expected) in [
        ("a.com", "a.com", true),
        ("a.com", "a.com:443", true),
        ("a.com:443", "a.com", false),
        ("*.a.com", "b.a.com", true),
        ("*.a.com", "*.b.a.com", true),
        ("*.a.com", "*.a.com:443", true),
        ("*.b.a.com", "*.a.com", false),
        ("*.a.com", "a.com", false),
        ("a.com", "*.a.com", false),
    ] {
        assert_eq!(pattern(wide).covers(&pattern(narrow)), expected, "{wide} {narrow}");
    }
}

#[test]
fn address_has_the_class_of_its_destination() {
    use AddressClass::{LinkLocal, Loopback, Metadata, Private, Public, Special};
    for (text, expected) in [
        ("93.184.216.34", Public),
        ("2606:2800:220:1:248:1893:25c8:1946", Public),
        ("127.0.0.1", Loopback),
        ("127.255.0.9", Loopback),
        ("0.0.0.0", Special),
        ("2001:0:1::1", Special),
        ("192.0.0.192", Metadata),
        ("::1", Loopback),
        ("::", Special),
        ("::ffff:127.0.0.1", Loopback),
        ("::127.0.0.1", Loopback),
        ("64:ff9b::7f00:1", Loopback),
        ("2002:7f00:1::", Loopback),
        ("10.1.2.3", Private),
        ("172.31.0.1", Private),
        ("172.32.0.1", Public),
        ("192.168.1.1", Private),
        ("100.64.0.1", Private),
        ("fd12::1", Private),
        ("169.254.1.1", LinkLocal),
        ("fe80::1", LinkLocal),
        ("169.254.169.254", Metadata),
        ("::ffff:169.254.169.254", Metadata),
        ("64:ff9b::a9fe:a9fe", Metadata),
        ("100.100.100.200", Metadata),
        ("fd00:ec2::254", Metadata),
        ("224.0.0.1", Special),
        ("255.255.255.255", Special),
        ("203.0.113.5", Special),
        ("ff02::1", Special),
        ("2001:db8::1", Special),
    ] {
        assert_eq!(class(text.parse().unwrap()), expected, "{text}");
    }
}

#[test]
fn check_address_allows_public_and_listed_addresses() {
    let named = policy(&["a.com", "10.0.0.9:5432", "169.254.169.254", "localhost"], &["1.1.1.1"]);
    let mut private = policy(&["db.corp.example"], &[]);
    private.allowed[0].private = true;
    for (policy, asked, address, expected) in [
        (&named, "a.com:443", "93.184.216.34", true),
        (&named, "a.com:443", "127.0.0.1", false),
        (&named, "a.com:443", "::ffff:10.0.0.1", false),
        (&named, "a.com:443", "1.1.1.1", false),
        (&named, "a.com:5432", "10.0.0.9", true),
        (&named, "a.com:5433", "10.0.0.9", false),
        (&named, "a.com:80", "169.254.169.254", true),
        (&named, "localhost:80", "::1", true),
        (&private, "db.corp.example:5432", "10.0.0.9", true),
        (&private, "db.corp.example:5432", "127.0.0.1", true),
        (&private, "db.corp.example:80", "169.254.169.254", false),
        (&private, "db.corp.example:80", "169.254.1.1", false),
        (&private, "db.corp.example:80", "224.0.0.1", false),
    ] {
        let address: IpAddr = address.parse().unwrap();
        let checked = policy.check_address(&asked.parse().unwrap(), address);
        assert_eq!(checked.is_ok(), expected, "{asked} {address}: {checked:?}");
    }
}

#[test]
fn refusal_names_host_rule_and_remedy() {
    let policy = policy(&["a.com"], &["*.b.com"]);
    let said = |asked: &str| policy.check(&asked.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(
        said("c.com:443"),
        "agent-sandbox refuses c.com:443: not in `allowed_hosts`; \
         to allow it: agent-sandbox --allow-host c.com …"
    );
    assert_eq!(
        said("c.com:8080").split("to allow it: ").nth(1),
        Some("agent-sandbox --allow-host c.com:8080 …")
    );
    assert_eq!(
        said("x.b.com:443"),
        "agent-sandbox refuses x.b.com:443: denied by `*.b.com` (here)"
    );
}

#[test]
fn presets_name_single_hosts() {
    for preset in host_presets() {
        assert!(preset.name.starts_with('@') && !preset.hosts.is_empty(), "{}", preset.name);
        for host in preset.hosts {
            assert!(pattern(host).single().is_some(), "{host}");
        }
    }
    assert_eq!(host_preset("@npm").unwrap().hosts, ["registry.npmjs.org:443"]);
}

fn a_host() -> impl Strategy<Value = String> {
    "[a-c]{1,2}(\\.[a-c]{1,2}){0,3}\\.(com|org)"
}

fn a_pattern() -> impl Strategy<Value = String> {
    (any::<bool>(), a_host(), prop_oneof![Just(""), Just(":443"), Just(":80")])
        .prop_map(|(below, host, port)| format!("{}{host}{port}", if below { "*." } else { "" }))
}

fn patterns() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(a_pattern(), 0..6)
}

fn of(allowed: &[String], denied: &[String]) -> EgressPolicy {
    fn texts(list: &[String]) -> Vec<&str> {
        list.iter().map(String::as_str).collect()
    }
    policy(&texts(allowed), &texts(denied))
}

proptest! {
    #[test]
    fn n12_empty_list_allows_nothing(host in a_host(), port in 1..u16::MAX, denied in patterns()) {
        let empty = of(&[], &denied);
        let asked = format!("{host}:{port}");
        prop_assert!(!allows(&empty, &asked));
        prop_assert!(!empty.knows(&host.parse().unwrap()));
    }

    #[test]
    fn denying_one_more_never_allows(
        host in a_host(), allowed in patterns(), mut denied in patterns(), more in a_pattern(),
    ) {
        let asked = format!("{host}:443");
        let before = allows(&of(&allowed, &denied), &asked);
        denied.push(more);
        prop_assert!(before || !allows(&of(&allowed, &denied), &asked));
    }

    #[test]
    fn order_does_not_matter(
        host in a_host(), allowed in patterns(), denied in patterns(),
    ) {
        let asked = format!("{host}:443");
        let mut turned = (allowed.clone(), denied.clone());
        turned.0.reverse();
        turned.1.reverse();
        prop_assert_eq!(
            allows(&of(&allowed, &denied), &asked),
            allows(&of(&turned.0, &turned.1), &asked)
        );
    }

    #[test]
    fn covered_pattern_allows_nothing_more(
        wide in a_pattern(), narrow in a_pattern(), host in a_host(), port in 440..446_u16,
    ) {
        let asked = format!("{host}:{port}");
        let (wide, narrow) = (pattern(&wide), pattern(&narrow));
        let asked = asked.parse().unwrap();
        prop_assert!(!wide.covers(&narrow) || !narrow.matches(&asked) || wide.matches(&asked));
    }

    #[test]
    fn parser_accepts_what_it_displays(text in "\\PC{0,40}") {
        if let Ok(host) = text.parse::<HostName>() {
            prop_assert_eq!(host.to_string().parse::<HostName>(), Ok(host));
        }
    }
}
