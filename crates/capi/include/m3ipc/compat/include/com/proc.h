/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_PROC_H
#define M3IPC_COMPAT_INCLUDE_COM_PROC_H

#include "../../minix/proc.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_PROC_H */
