//! Processes of `m3-tests-hostile`, the program of this package that breaks the rules.
//!
//! The daemon and the members that keep the rules are programs of `m3ipc-test-fixture`: build that
//! package first.

use m3ipc::Vm;
use m3ipc_test_fixture::{AreaProcess, MemberProcess, NodeFixture, program};

/// Starts a role of the hostile program as a user (0: as the user of the test).
#[must_use]
pub fn hostile_process(user: u32, role: &str, arguments: &[&str]) -> MemberProcess {
    MemberProcess::start_program(&[], &program("m3-tests-hostile"), user, role, arguments)
}

/// Starts a role of the hostile program that is a member of an area, and returns when it is ready.
#[must_use]
pub fn hostile_area_member(
    fixture: &NodeFixture,
    vm: &Vm,
    role: &str,
    arguments: &[&str],
) -> AreaProcess {
    AreaProcess::start_program(&program("m3-tests-hostile"), 0, role, fixture, vm, arguments)
}
