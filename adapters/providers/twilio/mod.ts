/** Twilio: phone numbers. */
import { key, provider, RootUrl } from '../manifest.ts'
import { setting } from '../../settings.ts'
import { Type } from '@sinclair/typebox'
import { twilio } from './numbers.ts'

export { twilio, type TwilioConfig } from './numbers.ts'

export const manifest = provider({
  name: 'twilio',
  title: 'Twilio',
  settings: {
    twilio_account_sid: key('The SID of the Twilio account.', {
      pattern: '^AC[0-9a-fA-F]{32}$',
      form: 'must be AC and 32 hex digits',
    }),
    twilio_auth_token: key('The auth token of the Twilio account.'),
    twilio_base_url: setting('Another address of the Twilio API.', RootUrl, { usual: 'the public API' }),
    twilio_lookups_url: setting('Another address of the Twilio Lookup API.', RootUrl, { usual: 'the public API' }),
    phone_countries: setting(
      'Countries in which numbers are rented (ISO 3166, separated by commas). All cost the buyer the same.',
      Type.String({ pattern: '^[A-Z]{2}(,[A-Z]{2})*$', maxLength: 300 }),
      { usual: '`US,CA`' },
    ),
    twilio_fraud_fields: setting(
      'Twilio Lookup packages of a fraud lookup, separated by commas. Some, such as `sim_swap`, need Twilio’s approval.',
      Type.String({ pattern: '^[a-z_]+(,[a-z_]+)*$', maxLength: 300 }),
      { usual: '`line_type_intelligence,sms_pumping_risk`' },
    ),
  },
  environment: {
    TWILIO_ACCOUNT_SID: 'twilio_account_sid',
    TWILIO_AUTH_TOKEN: 'twilio_auth_token',
    TWILIO_BASE_URL: 'twilio_base_url',
    TWILIO_LOOKUPS_URL: 'twilio_lookups_url',
    PHONE_COUNTRIES: 'phone_countries',
    TWILIO_FRAUD_FIELDS: 'twilio_fraud_fields',
  },
  serves: {
    phone: {
      create: (settings, { clock, log }) =>
        twilio({
          accountSid: settings.twilio_account_sid,
          authToken: settings.twilio_auth_token,
          baseUrl: settings.twilio_base_url,
          lookupsUrl: settings.twilio_lookups_url,
          fraudFields: settings.twilio_fraud_fields,
          countries: settings.phone_countries?.split(','),
          clock,
          log,
        }),
    },
  },
})
