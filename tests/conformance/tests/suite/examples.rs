//! The Rust examples print what they promise, each on its own node.

use m3ipc_test_fixture::{NodeFixture, program, watchdog};
use std::process::{Command, Stdio};

fn example(fixture: &NodeFixture, name: &str) -> Command {
    let mut command = Command::new(program(&format!("m3-tests-example-{name}")));
    command.env("M3_RUNTIME_DIR", fixture.directory());
    command.env("M3_DAEMON", program("m3-tests-daemon"));
    command
}

fn output_of(name: &str, arguments: &[&str]) -> String {
    watchdog(280);
    let fixture = NodeFixture::new(name);
    let output = example(&fixture, name).args(arguments).output().expect("the example is built");
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

#[test]
fn the_shop_starts_again_after_a_kill_of_its_first_process() {
    watchdog(120);
    let fixture = NodeFixture::new("shop");
    let mut node = fixture.node();
    let quiet = || Stdio::null();
    for members in 0..3 {
        let mut command = example(&fixture, "shop");
        let mut first = command.stdout(quiet()).stderr(quiet()).spawn().expect("it is built");
        let is_up = |vm: &m3ipc::VmInfo| vm.name == "shop" && vm.endpoints >= members;
        // On a busy machine the example may end before this test sees it.
        while !node.vms().expect("the list").iter().any(is_up)
            && first.try_wait().expect("a child of this test").is_none()
        {
            std::thread::yield_now();
        }
        let _ = first.kill();
        first.wait().expect("a child of this test");
        let output = example(&fixture, "shop").output().expect("it is built");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_whole = text.contains("2 + 40 = 42") && text.contains("it was killed: ");
        assert!(output.status.success() && is_whole, "{output:?}");
    }
}
