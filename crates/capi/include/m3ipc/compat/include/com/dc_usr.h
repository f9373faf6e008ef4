/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_DC_USR_H
#define M3IPC_COMPAT_INCLUDE_COM_DC_USR_H

#include "../../minix/dc_usr.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_DC_USR_H */
