//! Metrics in the text format of Prometheus, for the proxy and for `serve`.
//!
//! See <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>.

use std::fmt::{Display, Write as _};

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Number that only grows.
    Counter,
    /// Number that goes up and down.
    Gauge,
}

/// Labels of a sample.
pub type Labels<'l> = &'l [(&'l str, &'l dyn Display)];

/// Text that is written family by family.
#[derive(Debug)]
pub struct Exposition {
    prefix: &'static str,
    text: String,
}

impl Exposition {
    /// Starts an empty text, in which each name begins with `prefix` and an underscore.
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, text: String::new() }
    }

    /// Starts a family of samples.
    pub fn family<'e>(&'e mut self, kind: Kind, name: &str, help: Option<&str>) -> Family<'e> {
        let name = format!("{}_{name}", self.prefix);
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a string cannot fail.
        if let Some(help) = help {
            let _ = writeln!(self.text, "# HELP {name} {help}.");
        }
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        Family { name, text: &mut self.text }
    }

    /// Returns the text.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// Family of samples with one name.
#[derive(Debug)]
pub struct Family<'e> {
    name: String,
    text: &'e mut String,
}

impl Family<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        let pair = |(name, value): &(&str, &dyn Display)| format!("{name}=\"{}\"", escaped(*value));
        let labels: Vec<_> = labels.iter().map(pair).collect();
        self.text.push_str(&self.name);
        if !labels.is_empty() {
            let _ = write!(self.text, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn escaped(value: &dyn Display) -> String {
    value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_family() {
        let mut metrics = Exposition::new("own");
        metrics.family(Kind::Gauge, "sessions", None).sample(&[], 3);
        let mut family = metrics.family(Kind::Counter, "calls_total", Some("Calls"));
        family.sample(&[("status", &200), ("path", &"/a")], 7);
        family.sample(&[("path", &"a\\\"b\n")], 0.5);
        assert_eq!(
            metrics.into_text(),
            "# TYPE own_sessions gauge\nown_sessions 3\n\
             # HELP own_calls_total Calls.\n# TYPE own_calls_total counter\n\
             own_calls_total{status=\"200\",path=\"/a\"} 7\n\
             own_calls_total{path=\"a\\\\\\\"b\\n\"} 0.5\n"
        );
    }
}
