/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_NODE_USR_H
#define M3IPC_COMPAT_INCLUDE_COM_NODE_USR_H

#include "../../minix/node_usr.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_NODE_USR_H */
