//! The Rust examples print what they promise, each on its own node.

use m3ipc_test_fixture::{NodeFixture, program, watchdog};
use std::process::Command;

fn output_of(name: &str, arguments: &[&str]) -> String {
    watchdog(280);
    let fixture = NodeFixture::new(name);
    let mut command = Command::new(program(&format!("m3-tests-example-{name}")));
    command.args(arguments).env("M3_RUNTIME_DIR", fixture.directory());
    let output = command
        .env("M3_DAEMON", program("m3-tests-daemon"))
        .output()
        .expect("the example is built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn an_image_passes_a_pipeline_in_place() {
    let text = output_of("pipeline", &["16"]);
    assert!(text.contains("bytes copied: 0;") && text.contains("same address: true"), "{text}");
    // A stage that had copied the image would have 16 MB of private memory.
    let private =
        text.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("");
    assert!(private.parse::<u64>().expect(&text) < 16 << 10, "{text}");
}

#[test]
fn a_third_party_copies_between_two_others() {
    let text = output_of("copy_between", &[]);
    assert!(text.contains("64 MiB from"), "{text}");
}
