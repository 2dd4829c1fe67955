//! Replacements for the parts that a build leaves out. A policy that needs one of them is refused.

#[cfg(not(feature = "proxy"))]
pub(crate) mod credentials {
    use sandbox_core::plan::{Decided, Inputs};
    use sandbox_policy::Host;

    use crate::LaunchError;

    /// Placeholder for credentials.
    #[derive(Default)]
    pub(crate) struct Credentials;

    impl Credentials {
        pub(crate) fn resolve(
            host: &Host,
            decided: &Decided,
            inputs: Inputs,
            _: usize,
        ) -> Result<(Self, Inputs), LaunchError> {
            if decided.config().secrets.is_empty() || host.inside {
                return Ok((Self, inputs));
            }
            Err(LaunchError::Without { key: "secrets", feature: "proxy" })
        }
    }
}

#[cfg(not(feature = "proxy"))]
pub(crate) mod egress {
    use std::os::fd::OwnedFd;

    use sandbox_core::plan::Plan;
    use sandbox_core::run::{AttachError, Gateway};
    use sandbox_policy::Host;

    use super::credentials::Credentials;
    use crate::{Events, LaunchError};

    /// Placeholder for the gateway.
    pub(crate) enum ProxyGateway {}

    impl ProxyGateway {
        pub(crate) fn of(
            plan: &Plan,
            _: Credentials,
            _: &Host,
            _: (i64, u32),
        ) -> Result<Option<Self>, LaunchError> {
            if plan.egress.is_none() {
                return Ok(None);
            }
            Err(LaunchError::Without { key: "network.allowed_hosts", feature: "proxy" })
        }

        pub(crate) fn report(&self, _: &mut dyn Events) -> usize {
            match *self {}
        }
    }

    impl Gateway for ProxyGateway {
        fn attach(&mut self, _: i32, _: &[OwnedFd]) -> Result<OwnedFd, AttachError> {
            match *self {}
        }
    }
}

#[cfg(not(feature = "layers"))]
pub(crate) mod layers {
    use std::ffi::OsString;

    use sandbox_core::plan::{Decided, Store};
    use sandbox_policy::Host;
    use sandbox_policy::config::Config;

    use crate::{Events, LaunchError};

    /// Refuses a policy with copy-on-write.
    pub(crate) fn create_data_dir(config: &Config, _: &Host) -> Result<(), LaunchError> {
        if config.cow.value.is_on() {
            return Err(LaunchError::Without { key: "cow", feature: "layers" });
        }
        Ok(())
    }

    /// Placeholder for layers.
    pub(crate) enum OpenLayers {}

    impl OpenLayers {
        #[allow(clippy::unnecessary_wraps, reason = "must match the signature in `layers`")]
        pub(crate) fn open(
            _: &Host,
            _: &Decided,
            _: Option<String>,
            _: &[OsString],
            _: (i64, u32),
        ) -> Result<Option<Self>, LaunchError> {
            Ok(None)
        }

        pub(crate) fn take_stores(&mut self) -> Vec<Store> {
            match *self {}
        }

        pub(crate) fn close(self, _: Option<u8>, _: &mut dyn Events) {
            match self {}
        }
    }
}
