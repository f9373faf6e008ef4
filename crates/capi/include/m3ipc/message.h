/*
 * The message: 48 bytes on x86-64. It holds the sender, a type, and 40 bytes in one of the formats
 * of Minix (1 to 8), of M3-IPC (9 and A), of DVK (B and C) or of a pulse (P). The programs agree on
 * the format.
 *
 *     0          4        8                                      48
 *     | m_source | m_type | m_u: 40 bytes, aligned to eight        |
 *
 * The library of the receiver writes m_source, from data of the node. It ignores the m_source of
 * the sender.
 */
#ifndef M3IPC_MESSAGE_H
#define M3IPC_MESSAGE_H

#include <sched.h> /* struct timespec, in every language mode */
#include <stddef.h>
#include <stdint.h>

#define M3_M3_STRING    14 /* bytes of m3_m3_ca1 */
#define M3_SLOTS_BY_MSG 4  /* numbers in m3_mA_ia */
#define M3_MD5_SIZE     16 /* bytes of m3_mB_md5 */
#define M3_MC_STRING    10 /* bytes of m3_mC_ca1 */

/* The formats of the 40 bytes. */
typedef struct { int m1i1, m1i2, m1i3; char *m1p1, *m1p2, *m1p3; } m3_mess_1;
typedef struct { int m2i1, m2i2, m2i3; long m2l1, m2l2; char *m2p1; } m3_mess_2;
typedef struct { int m3i1, m3i2; char *m3p1; char m3ca1[M3_M3_STRING]; } m3_mess_3;
typedef struct { long m4l1, m4l2, m4l3, m4l4, m4l5; } m3_mess_4;
typedef struct { short m5c1, m5c2; int m5i1, m5i2; long m5l1, m5l2, m5l3; } m3_mess_5;
typedef struct { char m6ca1[sizeof(m3_mess_3)]; } m3_mess_6;
typedef struct { int m7i1, m7i2, m7i3, m7i4; char *m7p1, *m7p2; } m3_mess_7;
typedef struct { int m8i1, m8i2; char *m8p1, *m8p2, *m8p3, *m8p4; } m3_mess_8;
typedef struct { int m9i1, m9l1; struct timespec m9t1; } m3_mess_9;
typedef struct { int mAdst, mAnr, mAia[M3_SLOTS_BY_MSG]; } m3_mess_A;
typedef struct { long mBnr; char mBmd5[M3_MD5_SIZE]; } m3_mess_B;
typedef struct { int mPcode, mPcount; uint64_t mPvalue; } m3_mess_P;
typedef struct { int mCi1, mCi2, mCi3, mCi4; char mCca1[M3_MC_STRING]; } m3_mess_C;

/* A message. */
typedef struct m3_message {
  int m_source; /* endpoint of the sender */
  int m_type;   /* type; M3_NOTIFY_FROM(slot) for a notification */
  union {
    m3_mess_1 m_m1;
    m3_mess_2 m_m2;
    m3_mess_3 m_m3;
    m3_mess_4 m_m4;
    m3_mess_5 m_m5;
    m3_mess_6 m_m6;
    m3_mess_7 m_m7;
    m3_mess_8 m_m8;
    m3_mess_9 m_m9;
    m3_mess_A m_mA;
    m3_mess_B m_mB;
    m3_mess_C m_mC;
    m3_mess_P m_mP;
  } m_u;
} m3_message;

/* Fields of a message: m.m3_m1_i1 is the first int of format 1. */
#define m3_m1_i1  m_u.m_m1.m1i1
#define m3_m1_i2  m_u.m_m1.m1i2
#define m3_m1_i3  m_u.m_m1.m1i3
#define m3_m1_p1  m_u.m_m1.m1p1
#define m3_m1_p2  m_u.m_m1.m1p2
#define m3_m1_p3  m_u.m_m1.m1p3

#define m3_m2_i1  m_u.m_m2.m2i1
#define m3_m2_i2  m_u.m_m2.m2i2
#define m3_m2_i3  m_u.m_m2.m2i3
#define m3_m2_l1  m_u.m_m2.m2l1
#define m3_m2_l2  m_u.m_m2.m2l2
#define m3_m2_p1  m_u.m_m2.m2p1

#define m3_m3_i1  m_u.m_m3.m3i1
#define m3_m3_i2  m_u.m_m3.m3i2
#define m3_m3_p1  m_u.m_m3.m3p1
#define m3_m3_ca1 m_u.m_m3.m3ca1

#define m3_m4_l1  m_u.m_m4.m4l1
#define m3_m4_l2  m_u.m_m4.m4l2
#define m3_m4_l3  m_u.m_m4.m4l3
#define m3_m4_l4  m_u.m_m4.m4l4
#define m3_m4_l5  m_u.m_m4.m4l5

#define m3_m5_c1  m_u.m_m5.m5c1
#define m3_m5_c2  m_u.m_m5.m5c2
#define m3_m5_i1  m_u.m_m5.m5i1
#define m3_m5_i2  m_u.m_m5.m5i2
#define m3_m5_l1  m_u.m_m5.m5l1
#define m3_m5_l2  m_u.m_m5.m5l2
#define m3_m5_l3  m_u.m_m5.m5l3

#define m3_m6_ca1 m_u.m_m6.m6ca1

#define m3_m7_i1  m_u.m_m7.m7i1
#define m3_m7_i2  m_u.m_m7.m7i2
#define m3_m7_i3  m_u.m_m7.m7i3
#define m3_m7_i4  m_u.m_m7.m7i4
#define m3_m7_p1  m_u.m_m7.m7p1
#define m3_m7_p2  m_u.m_m7.m7p2

#define m3_m8_i1  m_u.m_m8.m8i1
#define m3_m8_i2  m_u.m_m8.m8i2
#define m3_m8_p1  m_u.m_m8.m8p1
#define m3_m8_p2  m_u.m_m8.m8p2
#define m3_m8_p3  m_u.m_m8.m8p3
#define m3_m8_p4  m_u.m_m8.m8p4

#define m3_m9_i1  m_u.m_m9.m9i1
#define m3_m9_l1  m_u.m_m9.m9l1
#define m3_m9_t1  m_u.m_m9.m9t1

#define m3_mA_dst m_u.m_mA.mAdst
#define m3_mA_nr  m_u.m_mA.mAnr
#define m3_mA_ia  m_u.m_mA.mAia

#define m3_mB_nr  m_u.m_mB.mBnr
#define m3_mB_md5 m_u.m_mB.mBmd5

#define m3_mC_i1  m_u.m_mC.mCi1
#define m3_mC_i2  m_u.m_mC.mCi2
#define m3_mC_i3  m_u.m_mC.mCi3
#define m3_mC_i4  m_u.m_mC.mCi4
#define m3_mC_ca1 m_u.m_mC.mCca1

/*
 * A notification has format 9. Its argument is a set of 64 bits: the pending interrupts from
 * M3_HARDWARE, the pending signals from M3_SYSTEM, and 0 from others. m3_m9_l1 is the lower half,
 * m3_m9_i1 the upper half. m3_m9_t1 is the time of the notification (CLOCK_REALTIME).
 */
#define M3_NOTIFY_SOURCE    m_source
#define M3_NOTIFY_TYPE      m_type
#define M3_NOTIFY_ARG       m3_m9_l1
#define M3_NOTIFY_ARG_HIGH  m3_m9_i1
#define M3_NOTIFY_TIMESTAMP m3_m9_t1

/*
 * A pulse (m3_pulse_send, m3_timer) has the type M3_PULSE and these fields. A sender can choose the
 * type for a message; m3_kind tells the two apart. The count is 1; for a timer it is the number of
 * times that the timer ran out since the last take.
 */
#define M3_PULSE       0x200000
#define M3_PULSE_CODE  m_u.m_mP.mPcode  /* 0 to 255 */
#define M3_PULSE_COUNT m_u.m_mP.mPcount
#define M3_PULSE_VALUE m_u.m_mP.mPvalue

/* Kinds of what a call took: the results of m3_kind. */
#define M3_KIND_MESSAGE 1 /* a message or an answer */
#define M3_KIND_REQUEST 2 /* a message whose sender waits for an answer */
#define M3_KIND_NOTIFY  3 /* a notification */
#define M3_KIND_DEATH   4 /* the report of a death */
#define M3_KIND_PULSE   5 /* a pulse, of a peer or of a timer of the caller */

/* How an endpoint waits: the argument of m3_set_wait. */
#define M3_WAIT_ADAPTIVE 0 /* polls while that is likely to pay, then sleeps */
#define M3_WAIT_SPIN     1 /* polls, and never sleeps */
#define M3_WAIT_BLOCK    2 /* sleeps at once */

/* What an endpoint takes over from its clients: the argument of m3_set_inheritance. */
#define M3_INHERIT_NONE   0 /* nothing */
#define M3_INHERIT_ORDER  1 /* a place among other senders */
#define M3_INHERIT_THREAD 2 /* the same, and a priority of the thread */

/*
 * The report of a death is a notification of M3_SYSTEM (m3_watch). Its argument is the endpoint and
 * the code EMOLSRCDIED.
 */
#define M3_DEATH_ENDPOINT M3_NOTIFY_ARG
#define M3_DEATH_CODE     M3_NOTIFY_ARG_HIGH

/*
 * True if the message at p has the type of a notification of its source. A sender can choose that
 * type for a message; m3_kind tells the two apart.
 */
#define M3_IS_NOTIFY(p) ((p)->m_type == M3_NOTIFY_FROM(M3_ENDPOINT_P((p)->m_source)))

/* Formats for printf of a message at p: printf(M3_MSG1_FORMAT, M3_MSG1_FIELDS(p)). */
#define M3_MSG_HEAD "m_source=%d m_type=%d "
#define M3_MSG_SENDER(p) (p)->m_source, (p)->m_type
#define M3_MSG1_FORMAT M3_MSG_HEAD "m1_i1=%d m1_i2=%d m1_i3=%d m1_p1=%p m1_p2=%p m1_p3=%p\n"
#define M3_MSG2_FORMAT M3_MSG_HEAD "m2_i1=%d m2_i2=%d m2_i3=%d m2_l1=%ld m2_l2=%ld m2_p1=%p\n"
#define M3_MSG3_FORMAT M3_MSG_HEAD "m3_i1=%d m3_i2=%d m3_p1=%p m3_ca1=\"%.14s\"\n"
#define M3_MSG4_FORMAT M3_MSG_HEAD "m4_l1=%ld m4_l2=%ld m4_l3=%ld m4_l4=%ld m4_l5=%ld\n"
#define M3_MSG5_FORMAT M3_MSG_HEAD \
  "m5_c1=%d m5_c2=%d m5_i1=%d m5_i2=%d m5_l1=%ld m5_l2=%ld m5_l3=%ld\n"
#define M3_MSG6_FORMAT M3_MSG_HEAD "m6_ca1=\"%.32s\"\n"
#define M3_MSG7_FORMAT M3_MSG_HEAD "m7_i1=%d m7_i2=%d m7_i3=%d m7_i4=%d m7_p1=%p m7_p2=%p\n"
#define M3_MSG8_FORMAT M3_MSG_HEAD "m8_i1=%d m8_i2=%d m8_p1=%p m8_p2=%p m8_p3=%p m8_p4=%p\n"
#define M3_MSG9_FORMAT M3_MSG_HEAD "m9_i1=%d m9_l1=%d m9_t1=%ld.%09ld\n"
#define M3_MSGA_FORMAT M3_MSG_HEAD "mA_dst=%d mA_nr=%d mA_ia=%d,%d,%d,%d\n"
#define M3_MSGB_FORMAT M3_MSG_HEAD "mB_nr=%ld mB_md5=\"%.16s\"\n"
#define M3_MSGC_FORMAT M3_MSG_HEAD "mC_i1=%d mC_i2=%d mC_i3=%d mC_i4=%d mC_ca1=\"%.10s\"\n"

#define M3_MSG1_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m1_i1, (p)->m3_m1_i2, (p)->m3_m1_i3, \
  (void *)(p)->m3_m1_p1, (void *)(p)->m3_m1_p2, (void *)(p)->m3_m1_p3
#define M3_MSG2_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m2_i1, (p)->m3_m2_i2, (p)->m3_m2_i3, \
  (p)->m3_m2_l1, (p)->m3_m2_l2, (void *)(p)->m3_m2_p1
#define M3_MSG3_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m3_i1, (p)->m3_m3_i2, (void *)(p)->m3_m3_p1, \
  (p)->m3_m3_ca1
#define M3_MSG4_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m4_l1, (p)->m3_m4_l2, (p)->m3_m4_l3, \
  (p)->m3_m4_l4, (p)->m3_m4_l5
#define M3_MSG5_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m5_c1, (p)->m3_m5_c2, (p)->m3_m5_i1, \
  (p)->m3_m5_i2, (p)->m3_m5_l1, (p)->m3_m5_l2, (p)->m3_m5_l3
#define M3_MSG6_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m6_ca1
#define M3_MSG7_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m7_i1, (p)->m3_m7_i2, (p)->m3_m7_i3, \
  (p)->m3_m7_i4, (void *)(p)->m3_m7_p1, (void *)(p)->m3_m7_p2
#define M3_MSG8_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m8_i1, (p)->m3_m8_i2, (void *)(p)->m3_m8_p1, \
  (void *)(p)->m3_m8_p2, (void *)(p)->m3_m8_p3, (void *)(p)->m3_m8_p4
#define M3_MSG9_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_m9_i1, (p)->m3_m9_l1, \
  (long)(p)->m3_m9_t1.tv_sec, (long)(p)->m3_m9_t1.tv_nsec
#define M3_MSGA_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_mA_dst, (p)->m3_mA_nr, (p)->m3_mA_ia[0], \
  (p)->m3_mA_ia[1], (p)->m3_mA_ia[2], (p)->m3_mA_ia[3]
#define M3_MSGB_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_mB_nr, (p)->m3_mB_md5
#define M3_MSGC_FIELDS(p) M3_MSG_SENDER(p), (p)->m3_mC_i1, (p)->m3_mC_i2, (p)->m3_mC_i3, \
  (p)->m3_mC_i4, (p)->m3_mC_ca1

/* The layouts are part of the interface, so every compiler checks them. */
#if defined(__cplusplus)
#define M3_STATIC_ASSERT(cond, name) static_assert(cond, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define M3_STATIC_ASSERT(cond, name) _Static_assert(cond, #name)
#else
#define M3_STATIC_ASSERT(cond, name) typedef char m3_assert_##name[(cond) ? 1 : -1]
#endif

#if defined(__x86_64__) && !defined(__ILP32__)
M3_STATIC_ASSERT(sizeof(m3_message) == 48, message_is_48_bytes);
M3_STATIC_ASSERT(offsetof(m3_message, m_type) == 4, type_at_4);
M3_STATIC_ASSERT(offsetof(m3_message, m_u) == 8, payload_at_8);
M3_STATIC_ASSERT(sizeof(m3_mess_2) == 40, format_2_fills_the_payload);
M3_STATIC_ASSERT(sizeof(m3_mess_6) == 32, format_6_is_as_large_as_3);
M3_STATIC_ASSERT(sizeof(m3_mess_9) == 24, format_9_is_24_bytes);
M3_STATIC_ASSERT(offsetof(m3_message, m3_m9_t1) == 16, notification_time_at_16);
M3_STATIC_ASSERT(sizeof(m3_mess_A) == 24, format_A_is_24_bytes);
M3_STATIC_ASSERT(offsetof(m3_message, M3_PULSE_VALUE) == 16, value_of_a_pulse_at_16);
#endif

#endif /* M3IPC_MESSAGE_H */
