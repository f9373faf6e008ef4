/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_CONST_H
#define M3IPC_COMPAT_INCLUDE_COM_CONST_H

#include "../../minix/const.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_CONST_H */
