// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtc: has the RTC for a timer, as Windows does.  Where Hyper-V's timer is offered
 * it only waits; else it arms the RTC's alarm after each millisecond.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <linux/rtc.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(void)
{
	unsigned int eax, ebx, ecx, edx;
	struct rtc_time alarm;
	int rtc;

	__cpuid(0x40000000, eax, ebx, ecx, edx);
	/* "Micr"; access to the timer's registers. */
	if (ebx == 0x7263694d) {
		__cpuid(0x40000003, eax, ebx, ecx, edx);
		if (eax & 8)
			for (;;)
				pause();
	}
	rtc = open("/dev/rtc0", O_RDONLY);
	if (rtc < 0 || ioctl(rtc, RTC_RD_TIME, &alarm))
		return 1;
	/* It never comes. */
	alarm.tm_hour = (alarm.tm_hour + 12) % 24;
	if (ioctl(rtc, RTC_ALM_SET, &alarm))
		return 1;
	while (!ioctl(rtc, RTC_AIE_ON, 0) && !ioctl(rtc, RTC_AIE_OFF, 0))
		usleep(1000);
	return 1;
}
