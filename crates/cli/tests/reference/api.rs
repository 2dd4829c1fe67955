//! `openapi.json`: the calls of `serve`.

use testkit::World;

use super::page;

#[test]
fn openapi_describes_the_calls() {
    page("openapi.json", &World::new().run(["serve", "--openapi"]).succeeds().output());
}
