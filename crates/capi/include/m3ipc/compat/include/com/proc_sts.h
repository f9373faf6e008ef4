/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_PROC_STS_H
#define M3IPC_COMPAT_INCLUDE_COM_PROC_STS_H

#include "../../minix/proc_sts.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_PROC_STS_H */
