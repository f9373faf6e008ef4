/* Gives this folder, so that ../ paths of programs lead to the headers above. */
#ifndef M3IPC_COMPAT_SRC_SUB_STUB_SYSCALL_H
#define M3IPC_COMPAT_SRC_SUB_STUB_SYSCALL_H

#include "../stub_syscall.h"

#endif /* M3IPC_COMPAT_SRC_SUB_STUB_SYSCALL_H */
