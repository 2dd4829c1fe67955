use super::*;

/// Builds a `ClientHello` with these extensions.
fn greeting(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    let mut list = Vec::new();
    for (kind, content) in extensions {
        list.extend(kind.to_be_bytes());
        list.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        list.extend(content);
    }
    body.extend(u16::try_from(list.len()).unwrap().to_be_bytes());
    body.extend(list);
    let mut message = vec![1, 0];
    message.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    message.extend(body);
    message
}

fn server_name(name: &[u8]) -> (u16, Vec<u8>) {
    let length = u16::try_from(name.len()).unwrap();
    let list = [&(length + 3).to_be_bytes()[..], &[0], &length.to_be_bytes(), name].concat();
    (0, list)
}

/// Splits the message into records of this size.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| {
        [&[22, 3, 1][..], &u16::try_from(part.len()).unwrap().to_be_bytes(), part].concat()
    };
    message.chunks(size).flat_map(record).collect()
}

#[test]
fn hello_finds_the_name_in_records_of_any_size() {
    let message =
        greeting(&[(43, vec![2, 3, 4]), server_name(b"API.example.com"), (16, vec![0; 900])]);
    let expected = Hello::Greeting(Some("api.example.com".parse().unwrap()));
    for size in [1, 7, 100, 16384] {
        let bytes = records(&message, size);
        assert_eq!(read(&bytes), expected, "{size}");
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Hello::Incomplete, "{size} {end}");
        }
    }
    assert_eq!(read(&records(&greeting(&[]), 100)), Hello::Greeting(None));
}

#[test]
fn hello_is_broken_when_the_name_is_invalid() {
    let two = [&[0, 14][..], &[0, 0, 4], b"a.io", &[0, 0, 4], b"b.io"].concat();
    for (why, extensions) in [
        ("NUL", vec![server_name(b"a.com\0.evil.io")]),
        ("dot", vec![server_name(b"a.com.")]),
        ("empty", vec![server_name(b"")]),
        ("twice", vec![server_name(b"a.com"), server_name(b"b.com")]),
        ("two in one", vec![(0, two)]),
        ("cut", vec![(0, vec![0, 9, 0, 0, 9, b'a'])]),
    ] {
        assert_eq!(read(&records(&greeting(&extensions), 16384)), Hello::Broken, "{why}");
    }
    assert_eq!(read(&[0x80, 0x2e, 1, 3, 1]), Hello::Broken);
    assert_eq!(read(&[22, 3, 1, 0, 4, 2, 0, 0, 0]), Hello::Broken, "another message");
    assert_eq!(read(&[22, 3, 1, 0, 0]), Hello::Broken, "an empty record");
    assert_eq!(read(b"SSH-2.0-x\r\n"), Hello::Other);
    assert_eq!(read(b"GET / HTTP/1.1\r\n"), Hello::Other);
}
