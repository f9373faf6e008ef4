/* The table of all cases; included once. */
#define BOTH(name) void one_##name(void), two_##name(void)
BOTH(sendfile); BOTH(flood); BOTH(ahead); BOTH(blocking_bulk);
BOTH(level); BOTH(edge); BOTH(edge_late); BOTH(oneshot); BOTH(poll); BOTH(serve); BOTH(dup);
BOTH(fork);
BOTH(passed); BOTH(stdio); BOTH(range); BOTH(threads); BOTH(readers); BOTH(handler);
BOTH(cancelled);
BOTH(killed_sender); BOTH(killed_receiver); BOTH(killed_asleep); BOTH(killed_streaming);
BOTH(refused_pointers); BOTH(edge_pointers); BOTH(select_words); BOTH(kept_errno);
void two_refused_limits(void), two_limit_refused(void), two_limit_asleep(void);
#define WATCHES(name) void two_##name(void)
WATCHES(pending_level); WATCHES(pending_edge); WATCHES(pending_modified); WATCHES(pending_moved);
WATCHES(pending_asked);
WATCHES(pending_nested); WATCHES(pending_refused); WATCHES(pending_busy);
WATCHES(event_mask_ends); WATCHES(event_mask_close); WATCHES(event_mask_both);
WATCHES(event_mask_data); WATCHES(event_mask_dup);
WATCHES(event_mask_reused); WATCHES(event_mask_turns); WATCHES(event_mask_early);
WATCHES(threads_rouse); WATCHES(threads_elsewhere); WATCHES(threads_pool); WATCHES(threads_over);
WATCHES(threads_closed); WATCHES(threads_reused);
WATCHES(threads_cancelled); WATCHES(threads_jump); WATCHES(threads_mask); WATCHES(threads_ignored);
WATCHES(fork_child); WATCHES(fork_prefork); WATCHES(fork_passed); WATCHES(fork_exec);
WATCHES(fork_killed); WATCHES(fork_left); WATCHES(fork_polled);
WATCHES(many_level); WATCHES(many_edge); WATCHES(many_oneshot); WATCHES(many_sockets);
WATCHES(many_bulk);
WATCHES(many_churn); WATCHES(many_delayed);
WATCHES(slots_sets); WATCHES(slots_cycles); WATCHES(slots_names); WATCHES(slots_shared);
WATCHES(slots_exec); WATCHES(slots_polls); WATCHES(slots_beyond);
WATCHES(slots_again);
WATCHES(once_half); WATCHES(once_room); WATCHES(once_edge); WATCHES(once_oneshot);
WATCHES(once_grandchild);
WATCHES(steps_send); WATCHES(steps_receive); WATCHES(steps_serve); WATCHES(steps_make);
WATCHES(hostile_scribbles); WATCHES(hostile_clears);
WATCHES(order_level); WATCHES(order_edge); WATCHES(order_kernel); WATCHES(order_kernel_edge);
WATCHES(order_fifo);
WATCHES(hostile_static); WATCHES(rights); WATCHES(rights_exec); WATCHES(locks);
BOTH(standard_output); BOTH(standard_input); BOTH(standard_ahead);
void one_standard_exec(void), one_standard_vfork(void), two_standard_exec(void);
void one_unused_fork(void), one_unused_vfork(void), one_unused_spawn(void), two_unused(void);
void one_inherited_vfork(void), one_inherited_spawn(void), two_inherited(void);
void one_limit_strict(void), one_limit_filter(void), one_limit_loop(void), two_limit(void),
    one_limit_exec(void);
WATCHES(limit_fork); WATCHES(limit_polls); WATCHES(limit_others);
WATCHES(limit_vectors);
BOTH(limit_own); BOTH(limit_locked); BOTH(limit_vfork); BOTH(room); BOTH(room_all);
BOTH(words); BOTH(room_reset); BOTH(room_signal);
void one_servant(void), two_servant(void), one_fork_peer(void), one_fork_peer_left(void);
void one_ends_close(void), one_ends_shutdown(void), one_ends_exit(void), one_ends_kill(void),
    one_ends_unread(void), one_ends_unread_range(void), one_ends_unread_kill(void),
    one_ends_reset(void),
    one_ends_shut_read(void);
BOTH(odd_flag); BOTH(odd_queue); BOTH(odd_vectors); BOTH(odd_numbers); BOTH(odd_empty);
BOTH(odd_splice); BOTH(odd_splice_full); BOTH(odd_sendfile); BOTH(odd_mark); BOTH(odd_late);
BOTH(odd_left); BOTH(odd_again); BOTH(odd_huge); BOTH(odd_error); BOTH(odd_full);
BOTH(odd_rights); BOTH(odd_discard); BOTH(odd_low);
BOTH(unseen_backtrace); BOTH(unseen_file); BOTH(unseen_submit); BOTH(unseen_option);
BOTH(unseen_clone); BOTH(unseen_number); BOTH(unseen_daemon); BOTH(unseen_null);
BOTH(unseen_pidfd); BOTH(unseen_block);
BOTH(unseen_terminal); BOTH(unseen_apart); BOTH(unseen_apart_number);
BOTH(unseen_both); BOTH(unseen_stack); BOTH(unseen_jump);
void one_unseen_pidfd_spawn(void);
void one_unseen_early(void), one_unseen_inherited(void), one_unseen_size(void);
BOTH(rare_zero_copy); BOTH(rare_control); BOTH(rare_many); BOTH(rare_numbers);
BOTH(rare_quick_exit); BOTH(rare_part); BOTH(rare_name);
void one_rare_passed(void), one_edge_early(void);
BOTH(exec_passed);
void one_exec_large(void);
void two_nested(void), one_exec(void), one_exec_number(void), one_vfork(void), one_spawn(void),
    one_spawn_null(void), two_exec(void), one_pair(void);

#define CASE(name) { #name, one_##name, two_##name, 0 }
/* This side makes its own streams and processes. */
#define ALONE(name) { #name, one_##name, nothing, -1 }
/* The other side obeys this side. */
#define WATCH(name) { #name, one_servant, two_##name, 0 }
const struct made cases[] = {
    { "refused", one_refused, nothing, 2 },
    { "backlog", one_backlog, nothing, 2 },
    { "pair", one_pair, nothing, 2 },
    CASE(half_close), CASE(close_clean), CASE(reset), CASE(linger), CASE(gone),
    { "sigpipe", one_sigpipe, two_wait, 0 },
    CASE(peek), CASE(waitall), CASE(vectors), CASE(nonblocking), CASE(timeouts), CASE(signals),
    CASE(sizes),
    CASE(sendfile), CASE(flood), CASE(ahead), CASE(blocking_bulk), CASE(urgent), CASE(shut_read),
    CASE(level), CASE(edge), CASE(edge_late), CASE(oneshot),
    { "nested", one_oneshot, two_nested, 0 },
    CASE(poll), CASE(serve), CASE(dup), CASE(fork),
    CASE(refused_pointers), CASE(edge_pointers), CASE(select_words), CASE(kept_errno),
    WATCH(refused_limits),
    { "exec", one_exec, two_exec, 0 },
    { "exec_large", one_exec_large, two_exec, 0 },
    CASE(exec_passed),
    { "exec_number", one_exec_number, two_exec, 0 },
    { "vfork", one_vfork, two_exec, 0 },
    { "spawn", one_spawn, two_exec, 0 },
    { "spawn_null", one_spawn_null, two_exec, 0 },
    CASE(standard_output), CASE(standard_input), CASE(standard_ahead),
    { "standard_exec", one_standard_exec, two_standard_exec, 1 },
    { "standard_vfork", one_standard_vfork, two_standard_exec, 1 },
    { "unused_fork", one_unused_fork, two_unused, 1 },
    { "unused_vfork", one_unused_vfork, two_unused, 1 },
    { "unused_spawn", one_unused_spawn, two_unused, 1 },
    { "inherited_vfork", one_inherited_vfork, two_inherited, 0 },
    { "inherited_spawn", one_inherited_spawn, two_inherited, 0 },
    { "limit_strict", one_limit_strict, two_limit, 0 },
    { "limit_filter", one_limit_filter, two_limit, 0 },
    { "limit_loop", one_limit_loop, two_limit, 0 },
    { "limit_fresh_strict", one_limit_strict, two_limit, 1 },
    { "limit_fresh_filter", one_limit_filter, two_limit, 1 },
    { "limit_own", one_limit_own, two_limit_own, 1 },
    CASE(limit_vfork), CASE(limit_locked),
    WATCH(limit_fork), WATCH(limit_polls), WATCH(limit_others),
    WATCH(limit_vectors), WATCH(limit_refused), WATCH(limit_asleep),
    { "limit_exec", one_limit_exec, two_exec, 0 },
    CASE(room), CASE(room_all), CASE(room_reset), CASE(room_signal), CASE(words),
    CASE(passed), CASE(stdio), CASE(range), CASE(threads), CASE(readers), CASE(handler),
    CASE(cancelled),
    CASE(killed_sender), CASE(killed_receiver), CASE(killed_asleep), CASE(killed_streaming),
    WATCH(pending_level), WATCH(pending_edge), WATCH(pending_modified), WATCH(pending_moved),
    WATCH(pending_asked),
    WATCH(pending_nested), WATCH(pending_refused), WATCH(pending_busy),
    WATCH(event_mask_ends), WATCH(event_mask_close), WATCH(event_mask_both),
    WATCH(event_mask_data), WATCH(event_mask_dup),
    WATCH(event_mask_reused), WATCH(event_mask_turns), WATCH(event_mask_early),
    WATCH(threads_rouse), WATCH(threads_elsewhere), WATCH(threads_pool), WATCH(threads_over),
    WATCH(threads_closed), WATCH(threads_reused),
    WATCH(threads_cancelled), WATCH(threads_jump), WATCH(threads_mask), WATCH(threads_ignored),
    WATCH(fork_child), WATCH(fork_prefork), WATCH(fork_passed), WATCH(fork_exec),
    WATCH(fork_killed), WATCH(fork_left), WATCH(fork_polled),
    { "fork_peer", one_fork_peer, two_servant, 0 },
    { "fork_peer_left", one_fork_peer_left, two_servant, 0 },
    WATCH(many_level), WATCH(many_edge), WATCH(many_oneshot), WATCH(many_sockets), WATCH(many_bulk),
    WATCH(many_churn), WATCH(many_delayed),
    WATCH(slots_sets), WATCH(slots_cycles), WATCH(slots_names), WATCH(slots_shared),
    WATCH(slots_exec), WATCH(slots_polls), WATCH(slots_beyond), WATCH(slots_again),
    WATCH(once_half), WATCH(once_room), WATCH(once_edge), WATCH(once_oneshot),
    WATCH(once_grandchild),
    WATCH(steps_send), WATCH(steps_receive), WATCH(steps_serve), WATCH(steps_make),
    WATCH(hostile_scribbles), WATCH(hostile_clears),
    WATCH(order_level), WATCH(order_edge), WATCH(order_kernel), WATCH(order_kernel_edge),
    WATCH(order_fifo),
    WATCH(hostile_static),
    WATCH(rights), WATCH(rights_exec), WATCH(locks),
    ALONE(ends_close), ALONE(ends_shutdown), ALONE(ends_exit), ALONE(ends_kill), ALONE(ends_unread),
    ALONE(ends_unread_range), ALONE(ends_unread_kill), ALONE(ends_reset), ALONE(ends_shut_read),
    CASE(odd_flag), CASE(odd_queue), CASE(odd_vectors), CASE(odd_numbers), CASE(odd_empty),
    CASE(odd_splice), CASE(odd_splice_full), CASE(odd_sendfile), CASE(odd_mark), CASE(odd_late),
    CASE(odd_left), CASE(odd_again), CASE(odd_huge), CASE(odd_error), CASE(odd_full),
    CASE(odd_rights), CASE(odd_discard), CASE(odd_low),
    CASE(unseen_backtrace), CASE(unseen_file), CASE(unseen_submit), CASE(unseen_option),
    { "unseen_early", one_unseen_early, nothing, 2 },
    { "unseen_inherited", one_unseen_inherited, nothing, 2 },
    { "unseen_size", one_unseen_size, nothing, 2 },
    CASE(unseen_clone), CASE(unseen_number), CASE(unseen_daemon), CASE(unseen_null),
    CASE(unseen_terminal), CASE(unseen_apart), CASE(unseen_apart_number), CASE(unseen_both),
    CASE(unseen_stack),
    { "unseen_stack_new", one_unseen_stack, two_unseen_stack, 1 },
    CASE(unseen_jump), CASE(unseen_pidfd), CASE(unseen_block),
    { "unseen_pidfd_spawn", one_unseen_pidfd_spawn, two_exec, 0 },
    CASE(rare_zero_copy), CASE(rare_control), CASE(rare_many), CASE(rare_numbers),
    CASE(rare_quick_exit), CASE(rare_part), CASE(rare_name),
    ALONE(rare_passed), ALONE(edge_early),
    { NULL, NULL, NULL, 0 },
};
