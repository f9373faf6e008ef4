/* Reads ten bytes by bare system calls. Exit 7: the bytes that were sent; 1: an end or an error;
 * 2: anything else. */
static long call(long number, long one, long two, long three)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(one), "S"(two), "d"(three)
        : "rcx", "r11", "memory");
    return result;
}

void _start(void)
{
    char in[10];
    long come = 0, now = 1;
    while (come < 10 && now > 0) {
        now = call(0, 0, (long)(in + come), 10 - come);
        come += now > 0 ? now : 0;
    }
    long code = come == 10 ? 7 : come == 0 ? 1 : 2;
    for (int i = 0; i < come; i++)
        if (in[i] != '0' + i)
            code = 2;
    call(231, code, 0, 0);
    __builtin_unreachable();
}
