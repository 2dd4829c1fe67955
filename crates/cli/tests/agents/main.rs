//! Real agents in the sandbox: Claude Code, Codex, opencode, Gemini CLI and pi, installed by `./dev test agents`, use
//! a stand-in for their provider on loopback. Its response is a tool call that does some work and
//! then tries to steal a key, to write to the home directory and to delete work.
//!
//! The control of every test is the same agent and tool call without the sandbox.

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
