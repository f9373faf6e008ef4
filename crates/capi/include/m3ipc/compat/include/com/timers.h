/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_TIMERS_H
#define M3IPC_COMPAT_INCLUDE_COM_TIMERS_H

#include "../../minix/timers.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_TIMERS_H */
