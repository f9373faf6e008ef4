//! What differs between nodes. Each difference is checked: a case that is listed must fail in this
//! way, and one that is not must pass. The reasons are on the page `docs/nodes.md`.

use crate::placement::Placement;
use Placement::{Even, Far, Odd};

/// How a case ends.
#[derive(Clone, Debug)]
pub enum End {
    Passed,
    /// It failed with this text.
    Failed(String),
    /// It goes on and on.
    Hangs,
}

pub struct Difference {
    pub case: &'static str,
    pub placements: &'static [Placement],
    /// A part of what the failed case says; `None` if it does not end.
    pub says: Option<&'static str>,
    /// Whether it may also pass: the other node learns of something a little later.
    pub may_pass: bool,
}

const fn fails(
    case: &'static str,
    placements: &'static [Placement],
    says: &'static str,
) -> Difference {
    Difference { case, placements, says: Some(says), may_pass: false }
}

const fn hangs(case: &'static str, placements: &'static [Placement]) -> Difference {
    Difference { case, placements, says: None, may_pass: false }
}

const fn at_times(case: &'static str, says: Option<&'static str>) -> Difference {
    Difference { case, placements: &[Far], says, may_pass: true }
}

pub const ALL: &[Difference] = &[
    // Slots.
    fails("a_process_is_bound_once", &[Far], "left: RmtProc"),
    fails("lclbind_binds_another_process_and_wakes_its_wait4bind", &[Far], "code: RmtProc"),
    fails("tbind_in_a_process_that_is_not_bound_is_334", &[Far], "left: RmtProc"),
    fails("tbind_in_another_vm_than_the_process_is_334", &[Far], "left: RmtProc"),
    fails("the_end_of_a_thread_unbinds_its_endpoint_alone", &[Far], "Any {"),
    // Processes.
    fails("getep_finds_a_process_by_its_number", &[Far], "code: NotBind"),
    fails("the_sender_is_known_by_process_and_user", &[Far], "left: ("),
    // Unbinds.
    fails("an_unbound_caller_is_310_before_any_other_check", &[Far], "left: (Range, true)"),
    fails("unbind_of_another_ends_its_blocked_call_with_65", &[Far], "code: RmtProc"),
    fails("unbind_of_another_sends_it_sigpipe", &[Far], "code: RmtProc"),
    // Ends of VMs.
    hangs("calls_in_a_vm_that_ends_are_303", &[Far]),
    fails("drvs_end_ends_every_vm_and_then_the_node", &[Far], "left: None"),
    fails("vm_end_kills_after_the_grace_time", &[Far], "left: None"),
    fails("vm_end_sends_sigpipe_to_every_member", &[Far], "left: [None, None]"),
    fails("vm_end_sends_sigpipe_to_every_member", &[Odd], "left: [Some(13), None]"),
    fails("vm_end_sends_sigpipe_to_every_member", &[Even], "left: [None, Some(13)]"),
    // Raw addresses.
    fails("a_peer_is_copied_in_receive_rcvrqst_and_sendrec", &[Far], "left: -1"),
    fails("a_peer_that_has_got_what_it_waited_for_is_324", &[Far], "left: -1"),
    fails("missing_memory_is_71_with_the_bytes_copied", &[Far], "left: -1"),
    fails("the_requester_is_source_destination_or_neither", &Placement::ALL, "NotGranted("),
    // Receivers.
    fails("reply_goes_to_a_peer_that_receives_from_exactly_me", &[Far], "NotWaiting("),
    hangs("a_second_notification_through_the_daemon_stays_pending_too", &[Far]),
    fails(
        "a_receiver_gets_both_notifications_that_came_before_its_return_to_a_new_daemon",
        &[Far],
        "Died(",
    ),
    // What the other node learns a little later.
    at_times("a_second_notification_to_a_waiting_receiver_stays_pending", None),
    at_times("a_name_finds_its_endpoint", Some("code: NoNode")),
    at_times("a_name_that_is_taken_is_342", Some("left: 0")),
    at_times("exec_unbinds", Some("left: Err(Stale(")),
    // Circles.
    hangs("the_call_that_closes_a_circle_of_three_is_101", &[Far]),
];

/// The difference of a case in a placement.
pub fn find(case: &str, placement: Placement) -> Option<&'static Difference> {
    ALL.iter().find(|it| it.case == case && it.placements.contains(&placement))
}

/// Fails if a case ended in another way than expected.
pub fn judge(case: &str, placement: Placement, end: &End) {
    let expected = find(case, placement);
    let says = expected.map(|it| it.says);
    let is_expected = match (says, end) {
        (None, End::Passed) | (Some(None), End::Hangs) => true,
        (Some(Some(says)), End::Failed(text)) => text.contains(says),
        (Some(_), End::Passed) => expected.is_some_and(|it| it.may_pass),
        _ => false,
    };
    assert!(is_expected, "{case} with {placement:?} partners on beta: {says:?} expected, {end:?}");
}
