/* The timer record. Its functions are no part of m3ipc. */
#ifndef M3IPC_COMPAT_MINIX_TIMERS_H
#define M3IPC_COMPAT_MINIX_TIMERS_H

#include "../../../m3ipc.h"

#include "const.h"

typedef unsigned long molclock_t;
typedef unsigned long dvkclock_t;

#define TMR_NEVER          ((molclock_t)MOL_LONG_MAX)
#define tmr_arg(tp)        (&(tp)->tmr_arg)
#define tmr_exp_time(tp)   (&(tp)->tmr_exp_time)
#define tmr_inittimer(tp)  ((void)((tp)->tmr_exp_time = TMR_NEVER, (tp)->tmr_next = 0))

#endif /* M3IPC_COMPAT_MINIX_TIMERS_H */
