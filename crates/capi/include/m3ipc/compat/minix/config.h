/* Limits of a node, as in m3ipc/numbers.h. */
#ifndef M3IPC_COMPAT_MINIX_CONFIG_H
#define M3IPC_COMPAT_MINIX_CONFIG_H

#include "sys_config.h"

#ifndef MOLIPC
#define MOLIPC 1
#endif

#endif /* M3IPC_COMPAT_MINIX_CONFIG_H */
