/* Trace levels of DVK: bits of d_dbglvl, which m3ipc ignores. */
#ifndef M3IPC_COMPAT_MINIX_DVS_DEBUG_H
#define M3IPC_COMPAT_MINIX_DVS_DEBUG_H

#include "moldebug.h"

#define DVKDEBUG(level, ...) ((void)0)

#endif /* M3IPC_COMPAT_MINIX_DVS_DEBUG_H */
