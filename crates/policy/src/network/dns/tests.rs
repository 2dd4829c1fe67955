use super::*;

fn question(name: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut packet = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name {
        packet.push(u8::try_from(label.len()).unwrap());
        packet.extend_from_slice(label);
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    packet
}

#[test]
fn dns_answers_with_loopback_or_an_error() {
    let packet = question(&[b"api", b"example", b"com"], 1);
    let asked = read(&packet).unwrap();
    assert_eq!(asked.name, Ok("api.example.com".parse().unwrap()));
    let here = asked.answer(Answer::Here);
    assert_eq!(here[..8], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1]);
    assert_eq!(here[here.len() - 4..], [127, 0, 0, 1]);
    let unknown = asked.answer(Answer::Unknown);
    assert_eq!((unknown[3] & 15, unknown[7], unknown.len()), (3, 0, packet.len()));
    let text = question(&[b"example", b"com"], 16);
    assert_eq!(read(&text).unwrap().answer(Answer::Here)[7], 0, "no text record");
}

#[test]
fn dns_rejects_invalid_names_and_messages() {
    let odd = question(&[b"a\0", b"com"], 1);
    assert!(read(&odd).unwrap().name.is_err());
    let empty = question(&[], 1);
    assert!(read(&empty).unwrap().name.is_err());
    let good = question(&[b"a", b"com"], 1);
    let mut response = good.clone();
    response[2] |= 0x80;
    let mut pointer = good.clone();
    pointer[12] = 0xc0;
    for (why, packet) in [
        ("a response", response),
        ("a pointer", pointer),
        ("a dot in a label", question(&[b"a.b", b"com"], 1)),
        ("cut", good[..good.len() - 1].to_vec()),
        ("nothing", Vec::new()),
    ] {
        assert_eq!(read(&packet), None, "{why}");
    }
}
