/* For programs of DVK. */
#ifndef M3IPC_COMPAT_INCLUDE_COM_STUB_DVKCALL_H
#define M3IPC_COMPAT_INCLUDE_COM_STUB_DVKCALL_H

#include "../../stub_dvkcall.h"

#endif /* M3IPC_COMPAT_INCLUDE_COM_STUB_DVKCALL_H */
