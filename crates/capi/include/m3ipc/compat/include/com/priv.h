/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_PRIV_H
#define M3IPC_COMPAT_INCLUDE_COM_PRIV_H

#include "../../minix/priv.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_PRIV_H */
