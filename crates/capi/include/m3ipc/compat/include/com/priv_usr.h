/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_PRIV_USR_H
#define M3IPC_COMPAT_INCLUDE_COM_PRIV_USR_H

#include "../../minix/priv_usr.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_PRIV_USR_H */
