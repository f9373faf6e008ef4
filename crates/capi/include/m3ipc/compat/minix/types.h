/* Types of sets. */
#ifndef M3IPC_COMPAT_MINIX_TYPES_H
#define M3IPC_COMPAT_MINIX_TYPES_H

#include "../../../m3ipc.h"

typedef unsigned long irq_id_t;
typedef unsigned long ksigset_t;
typedef unsigned long update_t;

#define DVK_CHAR_BITS 8
#define BITCHUNK_BITS (sizeof(bitchunk_t) * DVK_CHAR_BITS)
#define BITMAP_CHUNKS(bits) (((bits) + BITCHUNK_BITS - 1) / BITCHUNK_BITS)

typedef struct { bitchunk_t chunk[BITMAP_CHUNKS(NR_DCS)]; } dc_map_t;
typedef struct { bitchunk_t chunk[BITMAP_CHUNKS(NR_NODES)]; } node_map_t;

#ifndef TIMEOUT_MS
#define TIMEOUT_MS 60000
#endif

#endif /* M3IPC_COMPAT_MINIX_TYPES_H */
