//! Core of agent-sandbox: resolves a policy, plans a sandbox and runs a command in it.
//! Synchronous; prints nothing.
//!
//! [`plan::plan`] makes every decision as plain data, before the first process or mount exists:
//!
//! ```
//! use sandbox_core::plan::{View, plan};
//! use sandbox_policy::{Host, config::Request};
//!
//! # let root = tempfile::tempdir()?;
//! # let root = root.path().canonicalize()?;
//! # let (home, project) = (root.join("home"), root.join("project"));
//! # std::fs::create_dir_all(&home)?;
//! # std::fs::create_dir_all(project.join("src"))?;
//! std::fs::write(project.join("sandbox.toml"), "filesystem.ro = ['src']")?;
//!
//! let host = Host { cwd: Some(project.clone()), home: Some(home), env: [].into(), ..Host::read() };
//! let request = Request { command: vec!["make".into()], ..Request::default() };
//! let plan = plan(&host, &request)?;
//! for mount in &plan.mounts {
//!     println!("{:?} {} ({})", mount.view, mount.target.display(), mount.origin);
//! }
//!
//! let src = plan.mounts.iter().find(|mount| mount.target == project.join("src")).unwrap();
//! assert_eq!(src.view, View::ReadOnly);
//! assert_eq!(src.origin.to_string(), format!("{}/sandbox.toml:1", project.display()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each decision names the rule that won, the rules that it beat, and where each was written:
//!
//! ```
//! use sandbox_core::plan::plan;
//! use sandbox_policy::{Host, config::{Access, Request}};
//!
//! # let root = tempfile::tempdir()?;
//! # let root = root.path().canonicalize()?;
//! # let (home, project) = (root.join("home"), root.join("project"));
//! # std::fs::create_dir_all(home.join(".ssh"))?;
//! # std::fs::create_dir_all(&project)?;
//! # let host = Host { cwd: Some(project), home: Some(home.clone()), env: [].into(), ..Host::read() };
//! let show_keys = (Access::Rw, "~/.ssh".to_owned());
//! let plan = plan(&host, &Request { paths: vec![show_keys], ..Request::default() })?;
//!
//! let decision = plan.decisions.covering(&home.join(".ssh/id_ed25519")).unwrap();
//! assert_eq!(decision.rule.access, Access::Exclude);
//! assert_eq!(decision.rule.origin.to_string(), "preset @base");
//! assert_eq!(decision.beaten.last().unwrap().origin.to_string(), "flag --rw ~/.ssh");
//! assert!(plan.notes[0].contains("remove that rule with `--exclude '!~/.ssh'`"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`render`] turns a plan into native namespaces and mounts or into bubblewrap's arguments. [`run::run`] executes it
//! and waits. [`inspect`] records the project before the run and scans it afterwards. `examples/plan.rs` prints the
//! plan for a directory.

mod specificity;
pub mod wrapper;
pub mod plan;
pub mod why;
pub mod first_run;
pub mod render;
pub mod run;
pub mod inspect;
pub mod doctor;
pub mod describe;
