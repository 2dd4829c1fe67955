//! Go: a static program that resolves names itself and has its own TLS.

use testkit::{World, need};

use crate::internet::Internet;

const FETCH: &str = r#"
package main

import ("fmt"; "io"; "net"; "net/http"; "os"; "time")

func fail(why any) { fmt.Fprintln(os.Stderr, why); os.Exit(1) }

// By the proxy variables, without a proxy, and as a bare connection.
func main() {
	how, where := os.Args[1], os.Args[2]
	if how == "raw" {
		_, err := net.DialTimeout("tcp", where, 10*time.Second)
		if err != nil { fail(err) }
		fmt.Print("connected")
		return
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
	if how == "direct" { client = &http.Client{Transport: &http.Transport{}} }
	answer, err := client.Get(where)
	if err != nil { fail(err) }
	if answer.StatusCode != 200 { fail(answer.Status) }
	io.Copy(os.Stdout, answer.Body)
}
"#;

#[test]
fn go_reaches_what_is_allowed_and_nothing_else() {
    let go = need("go").display().to_string();
    let internet = Internet::with(World::new().file("project/fetch.go", FETCH));
    let build = [go.as_str(), "build", "-o", "fetch", "fetch.go"];
    let world = internet.world.clone().env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local");
    world.host(build).succeeds();
    let inside = |how: &str, place: &str| internet.run(["./fetch", how, place]);
    let outside = |how: &str, place: &str| internet.world.host(["./fetch", how, place]);
    for scheme in ["http", "https"] {
        let (allowed, other) = (
            format!("{scheme}://api.example.com/hello"),
            format!("{scheme}://other.example.net/hello"),
        );
        for (how, denied) in [("proxied", "Forbidden"), ("direct", "no such host")] {
            inside(how, &allowed).succeeds().stdout("hello from api\n");
            outside(how, &other).succeeds().stdout("hello from other\n");
            inside(how, &other).fails().stdout("").stderr_contains(denied);
        }
    }
    let raw = format!("{}:80", crate::internet::PUBLIC);
    outside("raw", &raw).succeeds().stdout("connected");
    inside("raw", &raw).fails().stdout("").stderr_contains("unreachable");
}
