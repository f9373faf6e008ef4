/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_CMD_H
#define M3IPC_COMPAT_INCLUDE_COM_CMD_H

#include "../../minix/cmd.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_CMD_H */
