/* Macros for sets of bits. */
#ifndef M3IPC_COMPAT_MINIX_MACROS_H
#define M3IPC_COMPAT_MINIX_MACROS_H

#include "types.h"

#define NR_SYS_CHUNKS ((int)BITMAP_CHUNKS(NR_SYS_PROCS))
#define NR_DVK_CHUNKS ((int)BITMAP_CHUNKS(NR_DVK_CALLS))
#ifndef NR_DVK_CALLS
#define NR_DVK_CALLS  38
#endif

#define MAP_CHUNK(map, bit)     (map)[(bit) / BITCHUNK_BITS]
#define CHUNK_OFFSET(bit)       ((bit) % BITCHUNK_BITS)
#define get_sys_bit(map, bit)   (MAP_CHUNK((map).chunk, bit) & (1u << CHUNK_OFFSET(bit)))
#define set_sys_bit(map, bit) \
  (MAP_CHUNK((map).chunk, bit) |= (bitchunk_t)(1u << CHUNK_OFFSET(bit)))
#define unset_sys_bit(map, bit) \
  (MAP_CHUNK((map).chunk, bit) &= (bitchunk_t)~(1u << CHUNK_OFFSET(bit)))
#define get_node_bit(map, bit)   get_sys_bit(map, bit)
#define set_node_bit(map, bit)   set_sys_bit(map, bit)
#define unset_node_bit(map, bit) unset_sys_bit(map, bit)

#endif /* M3IPC_COMPAT_MINIX_MACROS_H */
