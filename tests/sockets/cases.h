/* The table of all cases; included once. */
#define BOTH(name) void one_##name(void), two_##name(void)
BOTH(sendfile); BOTH(flood); BOTH(ahead); BOTH(blocking_bulk);
BOTH(level); BOTH(edge); BOTH(edge_late); BOTH(oneshot); BOTH(poll); BOTH(serve); BOTH(dup); BOTH(fork);
BOTH(passed); BOTH(stdio); BOTH(range); BOTH(threads); BOTH(readers); BOTH(handler); BOTH(cancelled);
BOTH(killed_sender); BOTH(killed_receiver); BOTH(killed_asleep); BOTH(killed_streaming);
#define WATCHES(name) void two_##name(void)
WATCHES(held_level); WATCHES(held_edge); WATCHES(held_modified); WATCHES(held_moved); WATCHES(held_asked);
WATCHES(held_nested); WATCHES(held_refused); WATCHES(held_busy);
WATCHES(marks_ends); WATCHES(marks_close); WATCHES(marks_both); WATCHES(marks_data); WATCHES(marks_dup);
WATCHES(marks_reused); WATCHES(marks_turns); WATCHES(marks_early);
WATCHES(hands_rouse); WATCHES(hands_elsewhere); WATCHES(hands_pool); WATCHES(hands_over); WATCHES(hands_closed);
WATCHES(hands_cancelled); WATCHES(hands_jump); WATCHES(hands_mask); WATCHES(hands_ignored);
WATCHES(kin_fork); WATCHES(kin_prefork); WATCHES(kin_passed); WATCHES(kin_exec); WATCHES(kin_killed); WATCHES(kin_left);
WATCHES(crowd_level); WATCHES(crowd_edge); WATCHES(crowd_once); WATCHES(crowd_many); WATCHES(crowd_bulk);
WATCHES(crowd_churn); WATCHES(crowd_delayed);
WATCHES(slots_sets); WATCHES(slots_cycles); WATCHES(slots_names); WATCHES(slots_shared); WATCHES(slots_exec); WATCHES(slots_polls);
WATCHES(sharp_half); WATCHES(sharp_room); WATCHES(sharp_edge); WATCHES(sharp_once); WATCHES(sharp_grandchild);
WATCHES(steps_send); WATCHES(steps_receive); WATCHES(steps_serve); WATCHES(foe_scribbles); WATCHES(foe_static);
void one_servant(void), two_servant(void), one_kin_peer(void), one_kin_peer_left(void);
void two_nested(void), one_exec(void), one_vfork(void), one_spawn(void), two_exec(void), one_pair(void);

#define CASE(name) { #name, one_##name, two_##name, 0 }
/* The other side does what it is told. */
#define WATCH(name) { #name, one_servant, two_##name, 0 }
const struct made cases[] = {
    { "refused", one_refused, nothing, 2 },
    { "backlog", one_backlog, nothing, 2 },
    { "pair", one_pair, nothing, 2 },
    CASE(half_close), CASE(close_clean), CASE(reset), CASE(linger), CASE(gone),
    { "sigpipe", one_sigpipe, two_wait, 0 },
    CASE(peek), CASE(waitall), CASE(vectors), CASE(nonblocking), CASE(timeouts), CASE(signals), CASE(sizes),
    CASE(sendfile), CASE(flood), CASE(ahead), CASE(blocking_bulk), CASE(urgent), CASE(shut_read),
    CASE(level), CASE(edge), CASE(edge_late), CASE(oneshot),
    { "nested", one_oneshot, two_nested, 0 },
    CASE(poll), CASE(serve), CASE(dup), CASE(fork),
    { "exec", one_exec, two_exec, 0 },
    { "vfork", one_vfork, two_exec, 0 },
    { "spawn", one_spawn, two_exec, 0 },
    CASE(passed), CASE(stdio), CASE(range), CASE(threads), CASE(readers), CASE(handler), CASE(cancelled),
    CASE(killed_sender), CASE(killed_receiver), CASE(killed_asleep), CASE(killed_streaming),
    WATCH(held_level), WATCH(held_edge), WATCH(held_modified), WATCH(held_moved), WATCH(held_asked),
    WATCH(held_nested), WATCH(held_refused), WATCH(held_busy),
    WATCH(marks_ends), WATCH(marks_close), WATCH(marks_both), WATCH(marks_data), WATCH(marks_dup),
    WATCH(marks_reused), WATCH(marks_turns), WATCH(marks_early),
    WATCH(hands_rouse), WATCH(hands_elsewhere), WATCH(hands_pool), WATCH(hands_over), WATCH(hands_closed),
    WATCH(hands_cancelled), WATCH(hands_jump), WATCH(hands_mask), WATCH(hands_ignored),
    WATCH(kin_fork), WATCH(kin_prefork), WATCH(kin_passed), WATCH(kin_exec), WATCH(kin_killed), WATCH(kin_left),
    { "kin_peer", one_kin_peer, two_servant, 0 },
    { "kin_peer_left", one_kin_peer_left, two_servant, 0 },
    WATCH(crowd_level), WATCH(crowd_edge), WATCH(crowd_once), WATCH(crowd_many), WATCH(crowd_bulk),
    WATCH(crowd_churn), WATCH(crowd_delayed),
    WATCH(slots_sets), WATCH(slots_cycles), WATCH(slots_names), WATCH(slots_shared), WATCH(slots_exec), WATCH(slots_polls),
    WATCH(sharp_half), WATCH(sharp_room), WATCH(sharp_edge), WATCH(sharp_once), WATCH(sharp_grandchild),
    WATCH(steps_send), WATCH(steps_receive), WATCH(steps_serve), WATCH(foe_scribbles), WATCH(foe_static),
    { NULL, NULL, NULL, 0 },
};
