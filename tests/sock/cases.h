/* The table of all cases; included once. */
#define BOTH(name) void one_##name(void), two_##name(void)
BOTH(sendfile); BOTH(flood); BOTH(ahead); BOTH(blocking_bulk);
BOTH(level); BOTH(edge); BOTH(edge_late); BOTH(oneshot); BOTH(poll); BOTH(serve); BOTH(dup); BOTH(fork);
BOTH(passed); BOTH(stdio); BOTH(range); BOTH(threads); BOTH(readers); BOTH(handler); BOTH(cancelled);
BOTH(killed_sender); BOTH(killed_receiver); BOTH(killed_asleep); BOTH(killed_streaming);
void two_nested(void), one_exec(void), one_vfork(void), one_spawn(void), two_exec(void), one_pair(void);

#define CASE(name) { #name, one_##name, two_##name, 0 }
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
    { NULL, NULL, NULL, 0 },
};
