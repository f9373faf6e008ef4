/* Well-known numbers of the later releases, beyond those of m3ipc/numbers.h. */
#ifndef M3IPC_COMPAT_MINIX_COM_H
#define M3IPC_COMPAT_MINIX_COM_H

#include "../../../m3ipc.h"

#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif
#ifndef MIN
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#endif
#ifndef MAX
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#endif
#ifndef SET_BIT
#define SET_BIT(map, nr)  ((map) |= (1 << (nr)))
#define CLR_BIT(map, nr)  ((map) &= ~(1 << (nr)))
#define TEST_BIT(map, nr) ((map) & (1 << (nr)))
#endif

#define TIMEOUT_MOLCALL 30000 /* ms */

/* Slots below the last task. No process can be bound there. */
#define IDLE  (CLOCK - 1)
#define PROXY IDLE

/* Types of bind, of wait and of move. */
#define SELF_BIND     0
#define LCL_BIND      1
#define RMT_BIND      2
#define BKUP_BIND     3
#define REPLICA_BIND  4
#define USERMODE_BIND 5
#define MAX_BIND_TYPE USERMODE_BIND
#define WAIT_BIND     0
#define WAIT_UNBIND   1
#define MIGR_START    0
#define MIGR_COMMIT   1
#define MIGR_ROLLBACK 2

/* More notifications of Minix, and the second word of format 9. */
#define NEW_KSIG     NOTIFY_FROM(HARDWARE)
#define FKEY_PRESSED NOTIFY_FROM(TTY_PROC_NR)
#define DEV_PING     NOTIFY_FROM(RS_PROC_NR)
#define NOTIFY_FLAGS NOTIFY_ARG_HIGH
#define NR_BOOT_PROCS (NR_TASKS + INIT_PROC_NR + 1)

#endif /* M3IPC_COMPAT_MINIX_COM_H */
