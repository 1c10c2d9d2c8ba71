/** What the sample feed knows: on each shelf, symbols in the format of that shelf (contract 10.20). Prices are of the right size, and made up. */
import type { MarketKind } from '../../../core/mod.ts'
import type { SampleRow } from './market.ts'

const row = (
  symbol: string,
  description: string,
  [about, decimals, strays]: readonly [number, number, number],
): SampleRow => ({ symbol, description, about, decimals, strays })
const coin = (symbol: string, description: string, about: number, decimals = 2) =>
  row(symbol, description, [about, decimals, 0.5])
const pair = (symbol: string, description: string, about: number, decimals = 5) =>
  row(symbol, description, [about, decimals, 0.06])
const ware = (symbol: string, description: string, about: number, decimals = 3) =>
  row(symbol, description, [about, decimals, 0.2])
const share = (symbol: string, description: string, about: number, decimals = 2) =>
  row(symbol, description, [about, decimals, 0.25])

export const sampleSymbols: Readonly<Record<MarketKind, readonly SampleRow[]>> = {
  crypto: [
    coin('BTC-USD', 'BITCOIN / US DOLLAR', 94_000),
    coin('ETH-USD', 'ETHEREUM / US DOLLAR', 3_400),
    coin('SOL-USD', 'SOLANA / US DOLLAR', 190),
    coin('XRP-USD', 'XRP / US DOLLAR', 2.2, 5),
    coin('DOGE-USD', 'DOGECOIN / US DOLLAR', 0.21, 6),
    coin('LTC-USD', 'LITECOIN / US DOLLAR', 105),
  ],
  fx: [
    pair('EUR-USD', 'EURO / US DOLLAR', 1.11),
    pair('GBP-USD', 'BRITISH POUND / US DOLLAR', 1.29),
    pair('USD-JPY', 'US DOLLAR / JAPANESE YEN', 148, 3),
    pair('USD-CHF', 'US DOLLAR / SWISS FRANC', 0.86),
    pair('AUD-USD', 'AUSTRALIAN DOLLAR / US DOLLAR', 0.66),
    pair('USD-CNH', 'US DOLLAR / OFFSHORE CHINESE YUAN', 7.1),
  ],
  commodity: [
    ware('XAU-USD', 'GOLD / US DOLLAR', 2_900),
    ware('XAG-USD', 'SILVER / US DOLLAR', 33),
    ware('XPT-USD', 'PLATINUM / US DOLLAR', 1_000),
    ware('USOILSPOT', 'WEST TEXAS INTERMEDIATE CRUDE', 72),
    ware('UKOILSPOT', 'BRENT CRUDE', 76),
  ],
  us: [
    share('AAPL', 'APPLE INC / US DOLLAR', 240),
    share('MSFT', 'MICROSOFT CORP / US DOLLAR', 450),
    share('NVDA', 'NVIDIA CORP / US DOLLAR', 150),
    share('TSLA', 'TESLA INC / US DOLLAR', 300),
    share('GOOGL', 'ALPHABET INC / US DOLLAR', 190),
    share('AMZN', 'AMAZON.COM INC / US DOLLAR', 210),
  ],
  hk: [
    share('0700-HK', 'TENCENT HOLDINGS / HONG KONG DOLLAR', 420),
    share('9988-HK', 'ALIBABA GROUP / HONG KONG DOLLAR', 95),
  ],
  jp: [share('7203', 'TOYOTA MOTOR / JAPANESE YEN', 2_800, 1), share('6758', 'SONY GROUP / JAPANESE YEN', 3_100, 1)],
  kr: [
    share('005930', 'SAMSUNG ELECTRONICS / KOREAN WON', 68_000, 0),
    share('000660', 'SK HYNIX / KOREAN WON', 190_000, 0),
  ],
  gb: [share('VOD', 'VODAFONE GROUP / BRITISH POUND', 0.74, 4), share('SHEL', 'SHELL / BRITISH POUND', 26, 3)],
  de: [share('SAP', 'SAP SE / EURO', 230), share('SIE', 'SIEMENS AG / EURO', 190)],
  fr: [share('MC', 'LVMH / EURO', 640), share('AIR', 'AIRBUS SE / EURO', 150)],
  nl: [share('ASML', 'ASML HOLDING / EURO', 700), share('INGA', 'ING GROEP / EURO', 16, 3)],
  ie: [share('RYA', 'RYANAIR HOLDINGS / EURO', 19, 3), share('KRZ', 'KERRY GROUP / EURO', 88)],
  lu: [share('SESG', 'SES SA / EURO', 5, 3), share('APAM', 'APERAM SA / EURO', 27, 3)],
  cn: [
    share('600519', 'KWEICHOW MOUTAI / CHINESE YUAN', 1_500),
    share('000858', 'WULIANGYE YIBIN / CHINESE YUAN', 140),
  ],
  ca: [share('SHOP', 'SHOPIFY INC / CANADIAN DOLLAR', 150), share('RY', 'ROYAL BANK OF CANADA / CANADIAN DOLLAR', 170)],
}
