/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_PROXY_USR_H
#define M3IPC_COMPAT_INCLUDE_COM_PROXY_USR_H

#include "../../minix/proxy_usr.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_PROXY_USR_H */
