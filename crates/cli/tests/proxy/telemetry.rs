//! OpenTelemetry spans: one for each request, to the collector of the standard variables.

use serde_json::{Value, json};

use crate::server::{Server, reply};
use crate::stage::{KEY, Stage, until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Returns all spans that a collector received.
fn spans(collector: &Server) -> Vec<Value> {
    let each = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    let sent: Vec<Value> = collector.seen().iter().map(|asked| each(&asked.body)).collect();
    let of = |batch: &Value| batch["resourceSpans"][0]["scopeSpans"][0]["spans"].clone();
    sent.iter().flat_map(|batch| of(batch).as_array().unwrap().clone()).collect()
}

fn attribute<'s>(span: &'s Value, key: &str) -> &'s Value {
    let attributes = span["attributes"].as_array().unwrap();
    &attributes.iter().find(|found| found["key"] == key).unwrap()["value"]
}

#[test]
fn a_span_goes_to_the_collector_for_each_request_and_has_no_content() {
    let collector = Server::new(|_, wire| reply(wire, "200 OK", "", b"{}"));
    let server = Server::new(|_, wire| {
        reply(
            wire,
            "200 OK",
            "",
            br#"{"text":"said","usage":{"input_tokens":7,"output_tokens":3}}"#,
        )
    });
    let stage = Stage::with_env(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=mine"),
        ("OTEL_SERVICE_NAME", "of a test"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ]);
    let token = stage.session(&server);
    let span = "b7ad6b7169203331";
    stage.send(&format!(
        "POST /v1/messages?private=1 HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ntraceparent: 00-{TRACE}-{span}-01\r\n\
         content-length: 5\r\n\r\nasked"
    ));
    stage.get("session-unknown", "/v1/messages");
    let all =
        until("both spans are there", || Some(spans(&collector)).filter(|all| all.len() == 2));

    let first = &all[0];
    assert_eq!((&first["traceId"], &first["parentSpanId"]), (&json!(TRACE), &json!(span)));
    assert_eq!(attribute(first, "url.path")["stringValue"], "/v1/messages");
    assert_eq!(attribute(first, "http.response.status_code")["intValue"], "200");
    assert_eq!(attribute(first, "gen_ai.usage.input_tokens")["intValue"], "7");
    assert_eq!(attribute(first, "agent_sandbox.outcome")["stringValue"], "complete");
    let time = |name: &str| first[name].as_str().unwrap().parse::<u128>().unwrap();
    assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
    assert_eq!(attribute(&all[1], "error.type")["stringValue"], "token_unknown");
    assert_ne!(all[1]["traceId"], TRACE);

    let asked = &collector.seen()[0];
    assert_eq!((asked.target(), asked.header("x-tenant")), ("/v1/traces", Some("mine")));
    let text = String::from_utf8(asked.body.clone()).unwrap();
    assert!(text.contains("of a test"), "{text}");
    for hidden in [KEY, token.as_str(), "asked", "said", "private"] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    assert_eq!(collector.connections(), 1);
}

#[test]
fn a_missing_collector_delays_no_request() {
    let server = Server::echo();
    let stage = Stage::with_env(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ]);
    let token = stage.open_session(&server);
    for _ in 0..10 {
        assert_eq!(stage.get(&token, "/x").status, 200);
    }
    assert_eq!(stage.audit(10).len(), 10);
}
