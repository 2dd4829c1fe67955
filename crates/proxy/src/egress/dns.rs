//! DNS server of a sandbox. Allowed names resolve to the proxy, all others do not exist. It asks no other server.

use std::io;
use std::sync::Arc;

use sandbox_policy::network::dns::{self, Answer};
use sandbox_policy::network::{HostName, Refusal, Verdict, allow_command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::EgressProxy;
use crate::limits::HEAD_TIMEOUT;

/// Longest accepted query. It is the EDNS size that avoids fragmentation.
const LONGEST: usize = 1232;

impl EgressProxy {
    /// Answers queries over UDP.
    pub(crate) async fn dns_over_udp(self: Arc<Self>, socket: UdpSocket) -> io::Result<()> {
        let mut packet = [0; LONGEST];
        loop {
            let (length, peer) = socket.recv_from(&mut packet).await?;
            if let Some(answer) = self.answer(&packet[..length]) {
                // The client may be gone.
                let _ = socket.send_to(&answer, peer).await;
            }
        }
    }

    /// Answers queries on a TCP connection.
    pub(crate) async fn dns_over_tcp(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = timeout(HEAD_TIMEOUT, stream.read_u16()).await??;
            let mut packet = vec![0; usize::from(length).min(LONGEST)];
            timeout(HEAD_TIMEOUT, stream.read_exact(&mut packet)).await??;
            let Some(answer) = self.answer(&packet) else { return Ok(()) };
            let length = u16::try_from(answer.len()).unwrap_or(u16::MAX);
            stream.write_all(&[&length.to_be_bytes()[..], &answer].concat()).await?;
        }
    }

    fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let question = dns::read(packet)?;
        let known = question.name.as_ref().is_ok_and(|host| self.is_known(host));
        Some(question.answer(if known { Answer::Here } else { Answer::Unknown }))
    }

    fn is_known(&self, host: &HostName) -> bool {
        let (rule, allow_with) = match self.policy.judge_host(host) {
            Verdict::Allowed(_) => return true,
            Verdict::Denied(rule) => (format!("denied by {rule}"), None),
            Verdict::Unlisted => {
                ("not in `allowed_hosts`".to_owned(), Some(allow_command(host, None)))
            }
        };
        self.record.write(&Refusal { host: host.to_string(), port: None, rule, allow_with }, None);
        false
    }
}
