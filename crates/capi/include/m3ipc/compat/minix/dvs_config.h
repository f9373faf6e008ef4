/* Limits: see m3ipc/numbers.h. */
#ifndef M3IPC_COMPAT_MINIX_DVS_CONFIG_H
#define M3IPC_COMPAT_MINIX_DVS_CONFIG_H

#include "sys_config.h"

#endif /* M3IPC_COMPAT_MINIX_DVS_CONFIG_H */
