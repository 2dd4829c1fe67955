//! Real agents in the sandbox: Claude Code, Codex, opencode, Gemini CLI and pi, which `./dev test agents` installs, talk to
//! a stand-in for their provider on loopback. It answers with a tool call that does some work and
//! then tries to steal a key, to write to the home directory and to throw work away.
//!
//! Every test has its control: the same agent, the same tool call, without the sandbox.

mod provider;
mod messages;
mod responses;
mod contents;
mod attack;
mod claude;
mod codex;
mod opencode;
mod gemini;
mod pi;
mod first_run;
mod proxied;
mod boxed;
