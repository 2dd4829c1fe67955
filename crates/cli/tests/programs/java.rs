//! Java: it has its own certificates, and reads the proxy from system properties.

use testkit::{Run, World, need};

use crate::internet::Internet;

/// By the old HTTP class, and by its successor.
const FETCH: &str = r#"
import java.net.*; import java.net.http.*;
class Fetch {
  public static void main(String[] words) throws Exception {
    var url = URI.create(words[0]);
    var connection = (HttpURLConnection) url.toURL().openConnection();
    connection.setConnectTimeout(10000);
    System.out.print(new String(connection.getInputStream().readAllBytes()));
    var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    var answer = client.send(HttpRequest.newBuilder(url).build(), HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() != 200) throw new Exception("status " + answer.statusCode());
    System.out.print(answer.body());
  }
}
"#;

/// A socket without any proxy setting.
const RAW: &str = r#"
class Raw {
  public static void main(String[] words) throws Exception {
    try (var socket = new java.net.Socket(java.net.Proxy.NO_PROXY)) {
      socket.connect(new java.net.InetSocketAddress(words[0], Integer.parseInt(words[1])), 10000);
      System.out.print("connected");
    }
  }
}
"#;

#[test]
fn java_reaches_what_is_allowed_and_nothing_else() {
    let (java, keytool) =
        (need("java").display().to_string(), need("keytool").display().to_string());
    let internet = Internet::with(
        World::new().file("project/Fetch.java", FETCH).file("project/Raw.java", RAW),
    );
    let import = "-importcert -noprompt -alias test -file authority.pem -keystore trust.p12 -storepass changeit";
    internet.world.host([keytool.as_str()].into_iter().chain(import.split(' '))).succeeds();
    let store =
        ["-Djavax.net.ssl.trustStore=trust.p12", "-Djavax.net.ssl.trustStorePassword=changeit"];
    let line = |url: &str| -> Vec<String> {
        let words = [java.as_str()].into_iter().chain(store).chain(["Fetch.java", url]);
        words.map(str::to_owned).collect()
    };
    let inside = |url: &str| -> Run {
        let flags = ["--allow-host", "api.example.com"].map(str::to_owned);
        internet.world.run(flags.into_iter().chain(line(url)))
    };
    for scheme in ["http", "https"] {
        let (allowed, other) = (
            format!("{scheme}://api.example.com/hello"),
            format!("{scheme}://other.example.net/hello"),
        );
        inside(&allowed).succeeds().stdout("hello from api\nhello from api\n");
        internet.world.host(line(&other)).succeeds().stdout("hello from other\nhello from other\n");
        inside(&other).fails().stdout("").stderr_contains("403");
    }
    let raw = [java.as_str(), "Raw.java", crate::internet::PUBLIC, "80"];
    internet.world.host(raw).succeeds().stdout("connected");
    let flags = ["--allow-host", "api.example.com"];
    internet
        .world
        .run(flags.into_iter().chain(raw))
        .fails()
        .stdout("")
        .stderr_contains("unreachable");
}
