/* Call numbers of the Minix servers, which are no part of m3ipc. */
#ifndef M3IPC_COMPAT_MINIX_CALLNR_H
#define M3IPC_COMPAT_MINIX_CALLNR_H

#include "../../../m3ipc.h"

#define MOLUNUSED 0

#endif /* M3IPC_COMPAT_MINIX_CALLNR_H */
