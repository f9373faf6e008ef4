/* For programs of MOL-IPC. */
#ifndef M3IPC_COMPAT_KERNEL_MINIX_TIMERS_H
#define M3IPC_COMPAT_KERNEL_MINIX_TIMERS_H

#include "../../minix/timers.h"

#endif /* M3IPC_COMPAT_KERNEL_MINIX_TIMERS_H */
