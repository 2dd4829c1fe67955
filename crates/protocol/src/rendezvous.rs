//! Protocol of the rendezvous socket, on which PID 1 of a container passes its listening sockets to the proxy
//! (`SCM_RIGHTS`, unix(7)).

/// Message of PID 1. The sockets are attached to it.
pub const LISTENERS: &[u8] = b"listeners\n";
/// Answer of a proxy that serves the sockets. Any other answer is the reason for a refusal.
pub const SERVED: &[u8] = b"ok\n";

/// Returns true for the answer [`SERVED`], with or without its line feed.
pub fn is_served(answer: &[u8]) -> bool {
    answer.starts_with(SERVED.trim_ascii_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_served_is_false_for_a_refusal() {
        assert!(is_served(SERVED) && is_served(b"ok"));
        assert!(!is_served(b"") && !is_served(b"no listener came with it\n"));
    }
}
