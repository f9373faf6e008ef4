/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_DVS_USR_H
#define M3IPC_COMPAT_INCLUDE_COM_DVS_USR_H

#include "../../minix/dvs_usr.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_DVS_USR_H */
