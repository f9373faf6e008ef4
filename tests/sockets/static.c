/* Reads ten bytes by bare system calls. Exit 7: the bytes that were sent; 1: an end or an error;
 * 2: anything else. */
#include <sys/syscall.h>

static long call(long number, long one, long two, long three)
{
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(one), "S"(two), "d"(three)
        : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = one;
    register long x1 __asm__("x1") = two, x2 __asm__("x2") = three;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#endif
}

void _start(void)
{
    char in[10];
    long come = 0, now = 1;
    while (come < 10 && now > 0) {
        now = call(SYS_read, 0, (long)(in + come), 10 - come);
        come += now > 0 ? now : 0;
    }
    long code = come == 10 ? 7 : come == 0 ? 1 : 2;
    for (int i = 0; i < come; i++)
        if (in[i] != '0' + i)
            code = 2;
    call(SYS_exit_group, code, 0, 0);
    __builtin_unreachable();
}
